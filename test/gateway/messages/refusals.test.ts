/**
 * What the `@anthropic-ai/sdk` finds beside messages: models, counts of tokens, and refusals in Anthropic's shape.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic, { APIError, AuthenticationError, NotFoundError } from "@anthropic-ai/sdk";
import { ModelFailure } from "../../../src/agent/index.ts";
import { ALICE_KEY } from "../../server/http/rig.ts";
import { PacedModel } from "../paced-model.ts";
import { ASKED, begin, clientOf, MODEL, NOTE, SCRIPT, textOf, user } from "./anthropic-user.ts";

test("models are listed in Anthropic's shape to its clients, one by one and by pages", async (t) => {
  const others = [new PacedModel(SCRIPT, "paced/other"), new PacedModel(SCRIPT, "paced/third")];
  const { anthropic } = await begin(t, SCRIPT, { others });
  const { data, has_more } = await anthropic.models.list();
  assert.deepEqual(
    [data.map(({ id, type, display_name }) => [id, type, display_name]), has_more],
    [[MODEL, "paced/other", "paced/third"].map((id) => [id, "model", id]), false],
  );
  const ids: string[] = [];
  for await (const { id } of anthropic.models.list({ limit: 1 })) ids.push(id);
  assert.deepEqual(ids, [MODEL, "paced/other", "paced/third"]);
  const one = await anthropic.models.retrieve("paced/other");
  assert.deepEqual(
    [one.id, one.type, Number.isNaN(Date.parse(one.created_at))],
    ["paced/other", "model", false],
  );
  await assert.rejects(anthropic.models.retrieve("nothing"), NotFoundError);
});

test("tokens are counted without a model, and a longer conversation has more of them", async (t) => {
  const { anthropic, model } = await begin(t);
  const count = async (messages: Anthropic.MessageParam[], more: object = {}): Promise<number> =>
    (await anthropic.messages.countTokens({ model: MODEL, messages, ...more })).input_tokens;
  const short = await count([user("Tell me about the wind over the sea in spring, please.")]);
  assert.ok(short > 10 && short < 40, String(short));
  assert.ok((await count([user("x".repeat(4_000))])) > 1_000);
  assert.ok((await count([user("hi")], { tools: [NOTE] })) > (await count([user("hi")])));
  assert.ok((await count([user("風".repeat(100))])) >= 100);
  assert.equal(model.calls.length, 0);
});

/** What the SDK makes of a refusal. */
async function refusalOf(asked: Promise<unknown>): Promise<APIError> {
  const error = await asked.then(
    () => assert.fail("it is accepted"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

test("refusals have Anthropic's shape and its types, before the door is reached as well", async (t) => {
  const httpLimits = { bodyBytesMax: 10_000 };
  const { anthropic, world, model } = await begin(t, SCRIPT, { httpLimits });
  const asked = (more: object = {}) =>
    anthropic.messages.create({ ...ASKED, messages: [user("hi")], ...more });
  const types: unknown[] = [];
  for (const refused of [
    () => clientOf(world, "wrong").messages.create({ ...ASKED, messages: [user("hi")] }),
    () => asked({ model: "nothing" }),
    () => asked({ messages: [user("x".repeat(20_000))] }),
    () => asked({ temperature: 7 }),
    () => asked({ messages: [{ role: "owner", content: "hi" }] }),
    () => anthropic.get("/v1/messages/nothing"),
  ]) {
    const error = await refusalOf(refused());
    assert.match(error.requestID ?? "", /^req_/);
    const body = new Map(Object.entries(error.error ?? {}));
    assert.deepEqual([body.get("type"), body.get("request_id")], ["error", error.requestID]);
    types.push([error.status, error.type]);
  }
  assert.deepEqual(types, [
    [401, "authentication_error"],
    [404, "not_found_error"],
    [413, "request_too_large"],
    [400, "invalid_request_error"],
    [400, "invalid_request_error"],
    [404, "not_found_error"],
  ]);
  assert.equal(model.calls.length, 0);
  await assert.rejects(clientOf(world, "wrong").models.list(), AuthenticationError);
});

test("a provider's failures have Anthropic's types, and say when to try again", async (t) => {
  const failures = [
    new ModelFailure("rate_limited", "slow down", { retryAfterMs: 7_000 }),
    new ModelFailure("unavailable", "busy", { status: 529 }),
    new ModelFailure("context_too_long", "too long"),
  ];
  const { anthropic } = await begin(t, () => {
    throw failures.shift() ?? new Error("no more");
  });
  const types: unknown[] = [];
  for (let at = 0; at < 3; at++) {
    const error = await refusalOf(
      anthropic.messages.create({ ...ASKED, stream: true, messages: [user(`hi ${at}`)] }),
    );
    types.push([error.status, error.type, error.headers?.get("retry-after")]);
  }
  assert.deepEqual(types, [
    [429, "rate_limit_error", "7"],
    [529, "overloaded_error", null],
    [400, "invalid_request_error", null],
  ]);
});

test("x-api-key and Authorization are both taken, and HEAD /api/hello needs neither", async (t) => {
  const { world, anthropic } = await begin(t);
  const bearer = new Anthropic({ baseURL: world.url, authToken: ALICE_KEY, apiKey: null, maxRetries: 0 });
  assert.equal(textOf(await bearer.messages.create({ ...ASKED, messages: [user("a")] })), "You said a.");
  assert.equal(textOf(await anthropic.messages.create({ ...ASKED, messages: [user("b")] })), "You said b.");
  for (const method of ["HEAD", "GET"])
    assert.equal((await fetch(`${world.url}/api/hello`, { method })).status, 200);
});
