/**
 * Names of models: each in one form, and none that leads elsewhere than to its model.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure } from "../../../src/agent/model.ts";
import { createModels, type ProviderConfig, type ProviderModels } from "../../../src/agent/models/index.ts";
import { API_KEY, ProviderServer, refuses } from "./providers/server.ts";

const LOCAL: ProviderConfig = { type: "openai-compatible", baseURL: "http://127.0.0.1:9/v1" };
const GOOGLE: ProviderConfig = { type: "google", baseURL: "http://127.0.0.1:9/v1beta", apiKeyEnv: "KEY" };

function refusal(models: ProviderModels, name: string): string {
  try {
    models.resolve(name);
  } catch (error) {
    assert.ok(error instanceof ModelFailure && error.kind === "model_not_found");
    return error.message;
  }
  throw new Error(`${name} was resolved`);
}

test("a name that could leave the path of its model is no name, whoever offers it", async (t) => {
  const models = createModels({ providers: { goog: GOOGLE, local: LOCAL }, environment: { KEY: API_KEY } });
  const leaving = [
    "goog/gemini-flash/../models/gemini-pro-latest",
    "goog/gemini-flash/%2e%2e/models/gemini-pro-latest",
    String.raw`goog/gemini-flash\..\gemini-pro-latest`,
    "goog/gemini-pro-latest?alt=json&x=",
    "goog/gemini-pro-latest#",
    "goog/./gemini-pro-latest",
    "goog//gemini-pro-latest",
    "goog/.\t./gemini-pro-latest",
    "local/a/../b",
    "..",
  ];
  for (const name of leaving) assert.match(refusal(models, name), /a model's name has no/, name);
  for (const name of ["goog/gemini-2.5-flash", "local/org/phi:8b", "local/Qwen3 30B (a..b)"])
    assert.equal(models.resolve(name).id, name);
  const server = await ProviderServer.start(t, refuses(200, { data: [{ id: "../a" }, { id: "phi:8b" }] }));
  const asked = createModels({
    providers: { local: { ...LOCAL, baseURL: `${server.origin}/v1` } },
    environment: {},
  });
  await asked.discover();
  assert.deepEqual(
    asked.list().map(({ id }) => id),
    ["local/phi:8b", "rehearsal/rehearsal"],
  );
});

test("two names of one model are compared as one", () => {
  const models = createModels({
    providers: { goog: GOOGLE, local: LOCAL },
    models: { offered: ["goog/gemini-flash", "local/caf\u00e9"] },
    environment: { KEY: API_KEY },
  });
  assert.equal(models.resolve("goog/models/gemini-flash").id, "goog/gemini-flash");
  assert.match(refusal(models, "goog/models/gemini-pro-latest"), /There is no model/);
  assert.equal(models.resolve(" local/cafe\u0301").id, "local/caf\u00e9");
});

test("a name means something else as soon as its provider says what it has", async (t) => {
  const server = await ProviderServer.start(t, refuses(200, { data: [{ id: "qwen3:8b" }] }));
  const models = createModels({ environment: { OLLAMA_HOST: server.origin } });
  const asked = (): readonly string[] => ["", "", "ollama/llama3"].map((name) => models.resolve(name).id);
  assert.deepEqual(asked(), ["ollama/default", "ollama/default", "ollama/llama3"]);
  await models.discover();
  assert.deepEqual(asked(), ["ollama/qwen3:8b", "ollama/qwen3:8b", "ollama/llama3"]);
});
