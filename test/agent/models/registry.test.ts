import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure } from "../../../src/agent/model.ts";
import { createModels, type ProviderConfig, type ProviderModels } from "../../../src/agent/models/index.ts";
import { ollamaURL } from "../../../src/agent/models/providers.ts";
import { API_KEY, partsOf, ProviderServer, refuses } from "./providers/server.ts";

const LOCAL: ProviderConfig = { type: "openai-compatible", baseURL: "http://127.0.0.1:9/v1" };

const idsOf = (models: ProviderModels): readonly string[] => models.list().map(({ id }) => id);
const defaultOf = (models: ProviderModels): string | undefined =>
  models.list().find(({ isDefault }) => isDefault)?.id;

function refusal(models: ProviderModels, name: string): string {
  try {
    models.resolve(name);
  } catch (error) {
    assert.ok(error instanceof ModelFailure && error.kind === "model_not_found");
    return error.message;
  }
  throw new Error(`${name} was resolved`);
}

test("with nothing configured there is the rehearsal model, and it is the default", () => {
  const models = createModels({ environment: {} });
  assert.deepEqual(idsOf(models), ["rehearsal/rehearsal"]);
  assert.equal(models.resolve("").id, "rehearsal/rehearsal");
  assert.equal(models.resolve("rehearsal").id, "rehearsal/rehearsal");
  assert.equal(defaultOf(models), "rehearsal/rehearsal");
  assert.match(refusal(models, "gpt-5.5"), /There are rehearsal\/rehearsal.*set ANTHROPIC_API_KEY/);
});

test("plain environment variables bring their providers; an empty one is not set", () => {
  const environment = { OPENAI_API_KEY: "k", GOOGLE_GENERATIVE_AI_API_KEY: "k", ANTHROPIC_API_KEY: "" };
  const models = createModels({ environment });
  const providers = new Set(models.list().map(({ provider }) => provider));
  assert.deepEqual([...providers], ["openai", "google", "rehearsal"]);
  assert.equal(models.resolve("").id, defaultOf(models));
  assert.match(defaultOf(models) ?? "", /^openai\//);
  const offered = models.list().find(({ provider }) => provider === "openai");
  assert.ok((offered?.contextTokensMax ?? 0) > 100_000);
});

test("a model that nobody listed is passed on to its provider; a bare name to the only one there is", () => {
  const models = createModels({ environment: { OPENAI_API_KEY: "k" } });
  assert.equal(models.resolve("openai/whatever-new").id, "openai/whatever-new");
  assert.equal(models.resolve("whatever-new").id, "openai/whatever-new");
  assert.equal(models.resolve("gpt-5.5").id, "openai/gpt-5.5");
  assert.match(refusal(models, "rehearsal/other"), /no model "rehearsal\/other"/);
});

test("a bare name that several providers could mean is refused, with the names to choose from", () => {
  const limits = { "one/llama": { contextTokensMax: 8_192 }, "two/llama": {}, "two/org/phi": {} };
  const models = createModels({ providers: { one: LOCAL, two: LOCAL }, models: { limits }, environment: {} });
  assert.match(refusal(models, "llama"), /one\/llama or two\/llama/);
  assert.match(refusal(models, "mistral"), /provider\/model of one, two/);
  assert.equal(models.resolve("org/phi").id, "two/org/phi", "a model's name may have slashes");
  assert.equal(models.resolve("one/llama").contextTokensMax, 8_192);
});

test("configured: the default, and the models offered, which are then all there are", () => {
  const models = createModels({
    providers: { local: LOCAL },
    models: { default: "local/b", offered: ["local/a"] },
    environment: { OPENAI_API_KEY: "k" },
  });
  assert.deepEqual(idsOf(models), ["local/b", "local/a", "rehearsal/rehearsal"]);
  assert.equal(models.resolve("").id, "local/b");
  assert.equal(models.resolve("a").id, "local/a");
  assert.match(refusal(models, "openai/gpt-5.5"), /There are local\/b, local\/a, rehearsal\/rehearsal\.$/);
  const wrong = createModels({ models: { default: "nowhere/x" }, environment: {} });
  assert.match(refusal(wrong, ""), /There is no model/);
});

test("a configured provider wins over the environment's of the same name", async (t) => {
  const server = await ProviderServer.start(t, refuses(401, {}));
  const models = createModels({
    providers: { openai: { type: "openai", baseURL: server.origin, headers: { "x-team": "sea" } } },
    environment: { OPENAI_API_KEY: API_KEY },
  });
  await assert.rejects(partsOf(models.resolve("openai/x")), /Check OPENAI_API_KEY/);
  assert.equal(server.asked[0]?.path, "/responses");
  assert.equal(server.asked[0]?.headers["x-team"], "sea");
});

test("E4: an API key goes to where OPENAI_BASE_URL points, not to OpenAI", async (t) => {
  const server = await ProviderServer.start(t, refuses(401, {}));
  const environment = { OPENAI_API_KEY: API_KEY, OPENAI_BASE_URL: `${server.origin}/v1/` };
  await assert.rejects(partsOf(createModels({ environment }).resolve("openai/x")));
  assert.equal(server.asked[0]?.path, "/v1/chat/completions");
});

test("discover asks OpenAI-compatible servers what they have; the first is the default then", async (t) => {
  const data = [{ id: "qwen3:8b" }, { id: "llama3" }, { id: 7 }, null];
  const server = await ProviderServer.start(t, refuses(200, { data }));
  const models = createModels({ environment: { OLLAMA_HOST: server.origin } });
  assert.equal(models.resolve("").id, "ollama/default");
  await models.discover();
  assert.deepEqual(idsOf(models), ["ollama/qwen3:8b", "ollama/llama3", "rehearsal/rehearsal"]);
  assert.equal(models.resolve("").id, "ollama/qwen3:8b");
  assert.equal(models.resolve("llama3").id, "ollama/llama3");
  assert.equal(server.asked[0]?.path, "/v1/models");
  assert.deepEqual(models.troubles, []);
});

test("OLLAMA_HOST in the forms that people have", () => {
  assert.equal(ollamaURL("127.0.0.1:11434"), "http://127.0.0.1:11434/v1");
  assert.equal(ollamaURL("0.0.0.0"), "http://127.0.0.1:11434/v1");
  assert.equal(ollamaURL("box"), "http://box:11434/v1");
  assert.equal(ollamaURL("https://box.example/ollama/"), "https://box.example/ollama/v1");
  assert.equal(ollamaURL("http://box:8080"), "http://box:8080/v1");
});
