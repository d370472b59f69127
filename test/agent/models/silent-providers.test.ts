/**
 * Providers that do not answer when they are asked for their models: they keep their place, and their error is the answer.
 */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import {
  createModels,
  type ModelsConfig,
  type ProviderConfig,
  type ProviderModels,
} from "../../../src/agent/models/index.ts";
import { API_KEY, partsOf, ProviderServer, refuses, silent } from "./providers/server.ts";

const idsOf = (models: ProviderModels): readonly string[] => models.list().map(({ id }) => id);
const defaultOf = (models: ProviderModels): string | undefined =>
  models.list().find(({ isDefault }) => isDefault)?.id;

test("a provider that does not answer keeps its place: no other model answers for it, and its own error is the answer", async (t) => {
  const gone = await deadOrigin();
  const hung = await ProviderServer.start(t, silent);
  const down = await ProviderServer.start(t, refuses(500, { error: { message: "the disk is full" } }));
  const closed = await ProviderServer.start(t, refuses(401, { error: { message: `bad key ${API_KEY}` } }));
  const compatible = (baseURL: string): ProviderConfig => ({ type: "openai-compatible", baseURL });
  const cases: readonly (readonly [ProviderConfig, RegExp])[] = [
    [compatible(gone), /^x: the provider cannot answer: no connection \(ECONNREFUSED\)\. Check that it runs/],
    [compatible(hung.origin), /^x: the provider cannot answer: nothing of the answer was received for 1 s/],
    [compatible(down.origin), /^x: the provider cannot answer \(HTTP 500\): the disk is full/],
    [
      { ...compatible(closed.origin), apiKeyEnv: "KEY" },
      /did not accept the API key \(HTTP 401\)\. Check KEY\./,
    ],
    [
      { ...compatible(closed.origin), apiKeyEnv: "NO_KEY" },
      /there is no API key\. Set the environment variable NO_KEY/,
    ],
  ];
  for (const [x, why] of cases) {
    const environment = { KEY: API_KEY, OPENAI_API_KEY: "k" };
    const models = createModels({ providers: { x }, environment, patience: { backoffMs: 1 } });
    // Only the one that never answers is not waited for.
    await models.discover(x.baseURL === hung.origin ? 50 : 30_000);
    assert.match(models.troubles.join(), why);
    assert.ok(!models.troubles.join().includes(API_KEY), "E4");
    assert.equal(defaultOf(models), "x/default");
    assert.equal(models.resolve("").id, "x/default");
    if (x.baseURL !== hung.origin) await assert.rejects(partsOf(models.resolve("")), { message: why });
  }
});

test("a provider that answers later works without a restart", async (t) => {
  let isUp = false;
  const server = await ProviderServer.start(t, async (...exchange) => {
    const answer = isUp ? refuses(200, { data: [{ id: "qwen3:8b" }] }) : refuses(503, "loading");
    return answer(...exchange);
  });
  const models = createModels({ environment: { OLLAMA_HOST: server.origin }, patience: { backoffMs: 1 } });
  await models.discover();
  const first = models.resolve("");
  await assert.rejects(partsOf(first), /the provider cannot answer \(HTTP 503\)/);
  isUp = true;
  // It is asked for its models, then the first of them is called; what it says to that does not matter here.
  await assert.rejects(partsOf(first));
  assert.match(JSON.stringify(server.asked.at(-1)?.body), /qwen3:8b/);
  assert.deepEqual(idsOf(models), ["ollama/qwen3:8b", "rehearsal/rehearsal"]);
  assert.deepEqual(models.troubles, []);
});

test("a server that names no models says so when its default is asked for", async (t) => {
  const server = await ProviderServer.start(t, refuses(404, "no such page"));
  const models = createModels({ environment: { OLLAMA_HOST: server.origin } });
  await models.discover();
  assert.match(models.troubles.join(), /^ollama: the provider names no models\. Name one as ollama\/model/);
  await assert.rejects(partsOf(models.resolve("")), /names no models/);
  assert.equal(models.resolve("ollama/qwen3").id, "ollama/qwen3");
});

test("a server that names no models is no trouble where the configuration names one of its models", async (t) => {
  const server = await ProviderServer.start(t, refuses(404, "no such page"));
  const environment = { OLLAMA_HOST: server.origin };
  const troublesWith = async (models: ModelsConfig): Promise<number> => {
    const made = createModels({ environment, models });
    await made.discover(30_000);
    return made.troubles.length;
  };
  assert.equal(await troublesWith({ default: "ollama/qwen3" }), 0);
  assert.equal(await troublesWith({ offered: ["ollama/qwen3"] }), 0);
  assert.equal(await troublesWith({ limits: { "ollama/qwen3": { contextTokensMax: 1_000 } } }), 0);
  assert.equal(await troublesWith({ default: "ollama/default" }), 1);
  assert.equal(await troublesWith({ default: "rehearsal/rehearsal" }), 1);
});

test("F2: a server whose list of models is too long is a failure, and fills no memory", async (t) => {
  const server = await ProviderServer.start(t, refuses(200, { data: ["x".repeat(4 * 1024 * 1024)] }));
  const models = createModels({ environment: { OLLAMA_HOST: server.origin }, patience: { backoffMs: 1 } });
  await models.discover(30_000);
  assert.match(models.troubles.join(), /^ollama: the provider cannot answer/);
});

/** Where a server was, and is no longer. */
async function deadOrigin(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/v1`;
}
