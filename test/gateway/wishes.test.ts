/** What a request asks for beside its words: on the provider's wire, or in `x-holdfast-ignored`. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createModels, type ProviderType } from "../../src/agent/models/index.ts";
import { API_KEY, type Asked, listOf, ProviderServer } from "../agent/models/providers/server.ts";
import { answers, WIRES } from "../agent/models/providers/wires.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

interface Told {
  readonly asked: Asked;
  readonly ignored: string | null;
  readonly headers: Headers;
}

/** One request through the gateway, and what the provider got of it. */
async function tell(t: TestContext, type: ProviderType, body: object): Promise<Told> {
  const wire = WIRES.find((one) => one.type === type);
  assert.ok(wire !== undefined);
  const server = await ProviderServer.start(t, (response, asked) => {
    response.setHeader("x-ratelimit-remaining-tokens", "149984");
    response.setHeader("x-secret", "stays here");
    return answers(wire)(response, asked);
  });
  const providers = createModels({
    providers: { test: { type, baseURL: `${server.origin}/v1`, apiKeyEnv: "TEST_KEY" } },
    environment: { TEST_KEY: API_KEY },
  });
  const world = await World.begin(t, new PacedModel(() => []), { providers });
  const response = await fetch(`${world.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test/test-model", ...body }),
  });
  assert.match(await response.text(), /northeast|"north"/);
  const [asked] = server.asked;
  assert.ok(asked !== undefined);
  return { asked, ignored: response.headers.get("x-holdfast-ignored"), headers: response.headers };
}

const MARK = { type: "ephemeral", ttl: "1h" };
const WISHES = {
  messages: [
    { role: "system", content: [{ type: "text", text: "Be kind.", cache_control: MARK }] },
    { role: "user", name: "ann", content: [{ type: "text", text: "One", cache_control: MARK }] },
    { role: "assistant", content: [{ type: "text", text: "Yes?", cache_control: MARK }] },
    {
      role: "user",
      name: "bob",
      content: [
        { type: "text", text: "Two" },
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==", detail: "low" } },
      ],
    },
  ],
  max_completion_tokens: 99,
  logit_bias: { "50256": -100 },
  verbosity: "low",
  prediction: { type: "content", content: "fog" },
  prompt_cache_key: "harbour",
  seed: 7,
  user: "u",
};

test("openai-compatible: every word reaches the provider where OpenAI has it", async (t) => {
  const { asked, ignored } = await tell(t, "openai-compatible", WISHES);
  const { body } = asked;
  assert.equal(ignored, "user");
  assert.deepEqual([body["max_completion_tokens"], "max_tokens" in body], [99, false]);
  for (const name of ["logit_bias", "verbosity", "prediction", "prompt_cache_key", "seed"] as const)
    assert.deepEqual(body[name], WISHES[name], name);
  assert.deepEqual(listOf(body["messages"]), [
    { role: "system", content: [{ type: "text", text: "Be kind.", cache_control: MARK }] },
    { role: "user", name: "ann", content: [{ type: "text", text: "One", cache_control: MARK }] },
    { role: "assistant", content: [{ type: "text", text: "Yes?", cache_control: MARK }] },
    {
      role: "user",
      name: "bob",
      content: [
        { type: "text", text: "Two" },
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==", detail: "low" } },
      ],
    },
  ]);
});

test("openai-compatible: a limit by its older name keeps it", async (t) => {
  const { asked } = await tell(t, "openai-compatible", { messages: WISHES.messages, max_tokens: 9 });
  assert.deepEqual([asked.body["max_tokens"], "max_completion_tokens" in asked.body], [9, false]);
});

test("openai: what its responses have a word for, and the rest by name", async (t) => {
  const { asked, ignored } = await tell(t, "openai", WISHES);
  const { body } = asked;
  assert.equal(ignored, "logit_bias, prediction, seed, name, cache_control, user");
  assert.equal(body["max_output_tokens"], 99);
  assert.equal(body["prompt_cache_key"], "harbour");
  assert.match(asked.text, /"verbosity":"low"/);
  assert.match(asked.text, /"detail":"low"/);
});

test("anthropic: the client's cache marks stand where it set them, and the rest by name", async (t) => {
  const { asked, ignored } = await tell(t, "anthropic", WISHES);
  assert.equal(ignored, "logit_bias, verbosity, prediction, prompt_cache_key, seed, name, detail, user");
  assert.equal(asked.body["max_tokens"], 99);
  assert.deepEqual(asked.body["system"], [{ type: "text", text: "Be kind.", cache_control: MARK }]);
  const marks = listOf(asked.body["messages"]).map(({ content }) =>
    listOf(content).map((part) => part["cache_control"]),
  );
  assert.deepEqual(marks, [[MARK], [MARK], [undefined, undefined]]);
});

test("google: what it has no word for is named", async (t) => {
  const { asked, ignored } = await tell(t, "google", WISHES);
  assert.equal(
    ignored,
    "logit_bias, verbosity, prediction, prompt_cache_key, name, detail, cache_control, user",
  );
  assert.match(asked.text, /"maxOutputTokens":99/);
  assert.match(asked.text, /"seed":7/);
});

test("a request that asks for nothing special is answered without the header; the provider's limits are told", async (t) => {
  for (const stream of [false, true]) {
    const { ignored, headers } = await tell(t, "openai-compatible", {
      messages: [{ role: "user", content: "Hello" }],
      stream,
    });
    assert.equal(ignored, null);
    assert.equal(headers.get("x-ratelimit-remaining-tokens"), "149984");
    assert.equal(headers.get("x-secret"), null);
  }
});

const ODD = {
  messages: [
    { role: "system", content: "Be kind." },
    { role: "user", content: "One" },
    { role: "assistant", content: "a" },
    { role: "assistant", content: "b" },
    {
      role: "user",
      content: [
        { type: "text", text: "Two" },
        { type: "text", text: "\n\n" },
      ],
    },
    { role: "system", content: "Be brief." },
    { role: "user", content: "Three" },
    { role: "assistant", content: "So" },
  ],
};

/** The conversation on each wire: who speaks, and every word. */
const ON_THE_WIRE: Readonly<Record<string, readonly (readonly [string, unknown])[]>> = {
  "openai-compatible": [
    ["system", "Be kind."],
    ["user", "One"],
    ["assistant", "a"],
    ["assistant", "b"],
    ["user", ["Two", "\n\n"]],
    ["system", "Be brief."],
    ["user", "Three"],
    ["assistant", "So"],
  ],
  openai: [
    ["system", "Be kind."],
    ["user", ["One"]],
    ["assistant", "a"],
    ["assistant", "b"],
    ["user", ["Two", "\n\n"]],
    ["system", "Be brief."],
    ["user", ["Three"]],
    ["assistant", "So"],
  ],
  // It joins neighbours of one role, and refuses blank texts.
  anthropic: [
    ["user", ["One"]],
    ["assistant", ["a", "b"]],
    ["user", ["Two\n\n"]],
    ["system", ["Be brief."]],
    ["user", ["Three"]],
    ["assistant", ["So"]],
  ],
  google: [
    ["user", ["One"]],
    ["model", ["a"]],
    ["model", ["b"]],
    ["user", ["Two", "\n\n"]],
    ["user", ["Three"]],
    ["model", ["So"]],
  ],
};

for (const { type } of WIRES) {
  test(`${type}: nothing but what was said is on the wire`, async (t) => {
    const { asked } = await tell(t, type, ODD);
    const { messages, input, contents } = asked.body;
    const wordsOf = (content: unknown): unknown =>
      Array.isArray(content) ? listOf(content).map(({ text }) => text) : content;
    const told = listOf(messages ?? input ?? contents).map(({ role, content, parts }) => [
      role,
      wordsOf(parts ?? content),
    ]);
    assert.deepEqual(told, ON_THE_WIRE[type]);
    assert.doesNotMatch(asked.text, /Continue|no text|blank/i);
  });
}
