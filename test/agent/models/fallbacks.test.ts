/**
 * Models that stand in for each other, over real sockets: who answers, with which API key, and that it is said.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Model, ModelPart } from "../../../src/agent/model.ts";
import { createModels, type ModelsOptions, type ProviderConfig } from "../../../src/agent/models/index.ts";
import { StepOptionsSchema } from "../../../src/protocol/messages.ts";
import { create } from "../../../src/protocol/message.ts";
import { callOf, partsOf, ProviderServer, refuses, textIn } from "./providers/server.ts";
import { answers, breaksOff, WIRES, type Wire } from "./providers/wires.ts";

const wireOf = (type: Wire["type"]): Wire =>
  WIRES.find((wire) => wire.type === type) ?? assert.fail(`no wire ${type}`);
const CHAT = wireOf("openai-compatible");
const CLAUDE = wireOf("anthropic");

const DOWN = refuses(503, { error: { message: "down" } });
const LIMITED = refuses(429, { error: { message: "slow down" } });

function modelsOf(
  servers: Readonly<Record<string, readonly [Wire, ProviderServer, Partial<ProviderConfig>?]>>,
  options: Partial<ModelsOptions> = {},
): ReturnType<typeof createModels> {
  const providers = Object.fromEntries(
    Object.entries(servers).map(([name, [wire, server, more]]) => [
      name,
      { type: wire.type, baseURL: `${server.origin}/v1`, apiKeyEnv: "KEY", ...more },
    ]),
  );
  const environment = { KEY: "test-key", KEY_ONE: "key-one", KEY_TWO: "key-two" };
  return createModels({ providers, environment, patience: { backoffMs: 1 }, ...options });
}

const servedIn = (parts: readonly ModelPart[]): readonly string[] =>
  parts.flatMap((part) => (part.kind === "fallback" ? [part.model] : []));

const FALLBACKS = { models: { fallbacks: { "work/claude": ["router/claude"] } } };

test("a fallback answers when the model does not, in its own wire format, and says who it is", async (t) => {
  const work = await ProviderServer.start(t, DOWN);
  const router = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ work: [CLAUDE, work], router: [CHAT, router] }, FALLBACKS);
  const parts = await partsOf(models.resolve("work/claude"));
  assert.equal(textIn(parts), "northeast");
  assert.deepEqual(servedIn(parts), ["router/claude"]);
  assert.equal(parts[0]?.kind, "fallback", "before anything that it says");
  assert.equal(work.asked.length, 3);
  assert.equal(router.asked.length, 1);
  assert.equal(router.asked[0]?.body["model"], "claude");
});

test("a target that is cooling down is not asked while its fallback answers, and is asked again afterwards", async (t) => {
  const work = await ProviderServer.start(t, DOWN);
  const router = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ work: [CLAUDE, work], router: [CHAT, router] }, FALLBACKS);
  const model = models.resolve("work/claude");
  for (let calls = 1; calls <= 3; calls++) assert.equal(textIn(await partsOf(model)), "northeast");
  assert.equal(work.asked.length, 3);
  assert.equal(router.asked.length, 3);
  const eager = modelsOf(
    { work: [CLAUDE, work, { cooldown: { seconds: 0 } }], router: [CHAT, router] },
    FALLBACKS,
  ).resolve("work/claude");
  for (let calls = 1; calls <= 2; calls++) await partsOf(eager);
  assert.equal(work.asked.length, 9);
});

test("G1: behind its first content no other model is asked", async (t) => {
  const work = await ProviderServer.start(t, breaksOff(CLAUDE));
  const router = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ work: [CLAUDE, work], router: [CHAT, router] }, FALLBACKS);
  await assert.rejects(partsOf(models.resolve("work/claude")), /broke off/);
  assert.equal(router.asked.length, 0);
});

test("G1: an answer that one model alone may give is not given by its fallback", async (t) => {
  const work = await ProviderServer.start(t, DOWN);
  const router = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ work: [CLAUDE, work], router: [CHAT, router] }, FALLBACKS);
  const model: Model = models.resolve("work/claude");
  await assert.rejects(partsOf(model, { onlyModel: "work/claude" }), /HTTP 503/);
  assert.equal(router.asked.length, 0);
  assert.equal(textIn(await partsOf(model, { onlyModel: "router/claude" })), "northeast");
});

test("the models that a request names take the place of the configured fallbacks", async (t) => {
  const work = await ProviderServer.start(t, DOWN);
  const router = await ProviderServer.start(t, answers(CHAT));
  const other = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ work: [CLAUDE, work], router: [CHAT, router], other: [CHAT, other] }, FALLBACKS);
  const options = create(StepOptionsSchema, { fallbackModels: ["other/m"] });
  const parts = await partsOf(models.resolve("work/claude"), callOf({ options }));
  assert.deepEqual(servedIn(parts), ["other/m"]);
  assert.equal(router.asked.length, 0);
});

test("several API keys are used in turn; one that is limited or refused gives way at once, and rests", async (t) => {
  for (const refusal of [LIMITED, refuses(401, { error: { message: "no such key" } })]) {
    const server = await ProviderServer.start(t, async (response, asked) => {
      const isFirst = asked.headers.authorization === "Bearer key-one";
      await (isFirst ? refusal : answers(CHAT))(response, asked);
    });
    const models = modelsOf({ test: [CHAT, server, { apiKeyEnv: ["KEY_ONE", "KEY_TWO", "KEY_NONE"] }] });
    const model = models.resolve("test/m");
    for (let calls = 1; calls <= 3; calls++) assert.equal(textIn(await partsOf(model)), "northeast");
    const used = server.asked.map(({ headers }) => headers.authorization);
    assert.deepEqual(used, ["Bearer key-one", "Bearer key-two", "Bearer key-two", "Bearer key-two"]);
  }
});

test("E4: none of several API keys is in a message", async (t) => {
  const server = await ProviderServer.start(
    t,
    refuses(400, { error: { message: "your keys key-one and key-two are odd" } }),
  );
  const models = modelsOf({ test: [CHAT, server, { apiKeyEnv: ["KEY_ONE", "KEY_TWO"] }] });
  await assert.rejects(partsOf(models.resolve("test/m")), (error: Error) => {
    assert.doesNotMatch(error.message, /key-one|key-two/);
    return true;
  });
});

test("without any API key the message names all variables that may hold one", async (t) => {
  const server = await ProviderServer.start(t, answers(CHAT));
  const models = modelsOf({ test: [CHAT, server, { apiKeyEnv: ["NONE_A", "NONE_B"] }] });
  await assert.rejects(partsOf(models.resolve("test/m")), /NONE_A or NONE_B/);
});

test("a fallback of no provider is said aloud at the start, and the rehearsal stands in for no model", async (t) => {
  const work = await ProviderServer.start(t, DOWN);
  const fallbacks = { "work/claude": ["nowhere/m", "rehearsal/rehearsal"] };
  const models = modelsOf({ work: [CLAUDE, work] }, { models: { fallbacks } });
  assert.deepEqual(
    models.troubles.map((trouble) => /"(?<id>[^"]+)"/.exec(trouble)?.groups?.["id"]),
    ["nowhere/m", "rehearsal/rehearsal"],
  );
  await assert.rejects(partsOf(models.resolve("work/claude")), /HTTP 503/);
});
