/**
 * Which identical requests are retries: what they get, and what the model is spared.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure } from "../../src/agent/index.ts";
import { parseChatRequest } from "../../src/gateway/openai/index.ts";
import { bodyOf, Exchange, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { until } from "../e2e/rig.ts";
import { ALONE, World } from "./world.ts";

const ask = (world: World, body: string, headers = {}): Promise<Reply> =>
  new Exchange(world.url, body, { headers }).reply();

/** Says half of it, then waits to be let go on. Each call says its number. */
function haltingModel(): { readonly model: PacedModel; readonly letGo: () => void } {
  const gate = Promise.withResolvers<void>();
  const model = new PacedModel((call, count) => {
    if (lastTold(call).startsWith("Look"))
      return [`Call ${count} begins. `, () => gate.promise, { tool: "look", args: {} }];
    return [`Call ${count} begins. `, () => gate.promise, "And it ends."];
  });
  return { model, letGo: gate.resolve };
}

const HELLO = bodyOf([user("Hello")]);
const WHOLE = "Call 1 begins. And it ends.";

test("identical requests side by side are two generations", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  const both = [new Exchange(world.url, HELLO), new Exchange(world.url, HELLO)];
  for (const one of both) await one.until("begins");
  letGo();
  const texts = await Promise.all(both.map(async (one) => (await one.reply()).text));
  assert.deepEqual(texts.toSorted(), [WHOLE, "Call 2 begins. And it ends."]);
  assert.equal(
    (await ask(world, HELLO)).text,
    "Call 3 begins. And it ends.",
    "and so is one that comes later",
  );
  assert.equal(world.gateway.counters.attached + world.gateway.counters.replayed, 0);
});

test("a retry of a broken response comes to the running answer, also while the model is silent, once", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  const broken = new Exchange(world.url, HELLO);
  await broken.until("begins");
  broken.hangUp();
  const first = await broken.reply();
  assert.ok(!first.isWhole);
  await until(
    () => world.gateway.counters.abandoned === 0 && readersOf(world) === 0,
    "the hang-up is noticed",
  );
  const again = new Exchange(world.url, HELLO);
  await again.until("begins");
  const third = new Exchange(world.url, HELLO);
  await third.until("begins");
  letGo();
  const reply = await again.reply();
  assert.equal(reply.text, WHOLE);
  assert.equal(reply.responseId, first.responseId);
  assert.ok(reply.isWhole);
  assert.equal((await third.reply()).text, "Call 2 begins. And it ends.");
  assert.equal(model.calls.length, 2);
  assert.equal(world.gateway.counters.attached, 1);
});

function readersOf({ gateway }: World): number {
  return gateway.readers;
}

test("a retry of an answer that ended while nobody listened is told it again, without the model", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  for (const body of [HELLO, bodyOf([user("Look")])]) {
    const broken = new Exchange(world.url, body);
    await broken.until("begins");
    broken.hangUp();
    await until(() => readersOf(world) === 0, "the hang-up is noticed");
  }
  letGo();
  await until(
    () => world.gateway.sessions.every(({ state }) => state === "parked"),
    "both came to their ends",
  );
  const told = await ask(world, HELLO);
  assert.equal(told.text, WHOLE);
  const calls = await ask(world, bodyOf([user("Look")]));
  assert.equal(calls.finish, "tool_calls");
  assert.equal(model.calls.length, 2);
  assert.equal(world.gateway.counters.replayed, 2);
  const [call] = calls.calls;
  assert.ok(call !== undefined);
  const next = await ask(world, bodyOf([user("Look"), said(calls), result(call.id, "seen")]));
  assert.equal(next.streamId, calls.streamId, "and its tools continue the turn");
});

test("a retry that breaks as well can be made again", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  for (let times = 0; times < 3; times++) {
    const broken = new Exchange(world.url, HELLO);
    await broken.until("begins");
    broken.hangUp();
    await until(() => readersOf(world) === 0, "the hang-up is noticed");
  }
  letGo();
  assert.equal((await ask(world, HELLO)).text, WHOLE);
  assert.equal(model.calls.length, 1);
});

test("no client returns within the grace period: the model is stopped, and a later request is a new one", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model, { limits: { graceMs: 30 } });
  const broken = new Exchange(world.url, HELLO);
  await broken.until("begins");
  broken.hangUp();
  await until(() => world.gateway.counters.abandoned === 1, "it is given up");
  await until(() => model.calls[0]?.signal.aborted === true, "the model is stopped");
  await until(() => world.gateway.sessions.length === 0, "the session is gone");
  letGo();
  const reply = await ask(world, HELLO);
  assert.equal(reply.text, "Call 2 begins. And it ends.");
  assert.equal(reply.finish, "stop");
});

test("x-holdfast-patience lengthens the grace period of its own answer, as far as the gateway allows, also over a kill", async (t) => {
  const { model, letGo } = haltingModel();
  const limits = { graceMs: 30, patienceMaxMs: 60_000 };
  const world = await World.begin(t, model, { ...ALONE, limits });
  const headers = { "x-holdfast-patience": "3600" };
  const patient = new Exchange(world.url, HELLO, { headers });
  await patient.until("begins");
  const other = new Exchange(world.url, bodyOf([user("Other")]));
  await other.until("begins");
  const { streamId } = world.gateway.sessions[0]?.answer ?? {};
  assert.equal(await patient.streamId(), streamId);
  patient.hangUp();
  other.hangUp();
  await until(() => world.gateway.counters.abandoned === 1, "the other one is given up");
  await until(() => world.gateway.sessions.length === 1, "its session is gone");
  assert.deepEqual(
    world.gateway.sessions.map(({ answer, patienceMs }) => [answer.streamId, patienceMs]),
    [[streamId, limits.patienceMaxMs]],
  );
  const impatient = new Exchange(world.url, bodyOf([user("Third")]));
  await impatient.until("begins");
  await world.restart();
  // The clocks of both begin with the start.
  await until(() => world.gateway.sessions.length === 1, "the one without patience is given up");
  assert.equal(world.gateway.counters.abandoned, 1);
  assert.equal(world.gateway.sessions[0]?.answer.streamId, streamId);
  letGo();
  assert.equal((await ask(world, HELLO)).streamId, streamId);
  const wrong = await new Exchange(world.url, HELLO, { headers: { "x-holdfast-patience": "soon" } }).reply();
  assert.equal(wrong.status, 400);
});

test("hanging up at [DONE], or after the finish, is no cancel and leaves nothing to retry", async (t) => {
  const { model, letGo } = haltingModel();
  letGo();
  const world = await World.begin(t, model);
  const one = new Exchange(world.url, bodyOf([user("Look")]));
  await one.until("[DONE]");
  one.hangUp();
  const parked = await one.reply();
  await until(() => world.gateway.sessions[0]?.state === "parked", "it is parked");
  const [call] = parked.calls;
  assert.ok(call !== undefined);
  const next = await ask(world, bodyOf([user("Look"), said(parked), result(call.id, "seen")]));
  assert.equal(next.streamId, parked.streamId);
  assert.equal(world.gateway.counters.abandoned, 0);
});

test("an Idempotency-Key names one generation: at once, while it runs, and when it is over", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  const headers = { "idempotency-key": "the-only-one" };
  const several = [1, 2, 3].map(() => new Exchange(world.url, HELLO, { headers }));
  for (const one of several) await one.until("begins");
  letGo();
  for (const one of several) assert.equal((await one.reply()).text, WHOLE);
  assert.equal((await ask(world, HELLO, headers)).text, WHOLE);
  assert.equal(model.calls.length, 1);
  assert.deepEqual([world.gateway.counters.attached, world.gateway.counters.replayed], [2, 1]);
  const other = await ask(world, bodyOf([user("Else")]), headers);
  assert.equal(other.status, 409);
  assert.equal(other.error, "invalid_request_error idempotency_key_reused");
  assert.equal(model.calls.length, 1);
});

test("what failed is tried again under the same Idempotency-Key, not told again", async (t) => {
  let isBroken = true;
  const model = new PacedModel(() => {
    if (isBroken) throw new ModelFailure("unavailable", "the provider is out of order");
    return ["Well again."];
  });
  const world = await World.begin(t, model);
  const headers = { "idempotency-key": "persistent" };
  const failed = await ask(world, HELLO, headers);
  assert.notEqual(failed.error, undefined);
  isBroken = false;
  assert.equal((await ask(world, HELLO, headers)).text, "Well again.");
});

test("of two identical requests the one that fails takes nothing from the other, whose retry after a crash finds it", async (t) => {
  const failing = Promise.withResolvers<void>();
  const going = Promise.withResolvers<void>();
  const fail = async (): Promise<void> => {
    await failing.promise;
    throw new ModelFailure("content_filtered", "the provider will not say more");
  };
  const model = new PacedModel((_, count) =>
    count === 1 ? ["It begins. ", fail] : ["It begins. ", () => going.promise, "And it ends."],
  );
  const world = await World.begin(t, model);
  const [one, other] = [new Exchange(world.url, HELLO), new Exchange(world.url, HELLO)];
  await one.until("begins");
  await other.until("begins");
  failing.resolve();
  const failed = (await one.reply()).streamId;
  const isThere = (streamId: string): boolean =>
    world.gateway.sessions.some(({ answer }) => answer.streamId === streamId);
  await until(() => !isThere(failed), "the one that failed is over");
  await world.restart();
  const cut = await other.reply();
  going.resolve();
  const retried = await ask(world, HELLO);
  assert.deepEqual([retried.streamId, retried.text], [cut.streamId, "It begins. And it ends."]);
});

test("a retry whose answer cannot be had any more gets the other one that an identical request lost", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model, ALONE);
  const both = [new Exchange(world.url, HELLO), new Exchange(world.url, HELLO)];
  for (const one of both) await one.until("begins");
  await world.restart();
  const lost = await Promise.all(both.map((one) => one.reply()));
  // After a start the order is the same each time: this one comes first.
  const probe = new Exchange(world.url, HELLO);
  await probe.until("begins");
  await world.restart();
  const { streamId: first } = await probe.reply();
  const principal = world.gateway.sessions[0]?.principal ?? "";
  await (
    await world.clientOf(principal).abort(first)
  ).ended;
  letGo();
  const retried = await ask(world, HELLO);
  assert.deepEqual([first, retried.streamId].toSorted(), lost.map(({ streamId }) => streamId).toSorted());
  assert.match(retried.text, /And it ends\.$/);
});

test("an Idempotency-Key names one generation even when its requests come in the very same moment", async (t) => {
  const { model, letGo } = haltingModel();
  letGo();
  const world = await World.begin(t, model);
  const call = {
    principal: "alice",
    request: parseChatRequest(JSON.parse(HELLO)),
    bodyHash: "of the body",
    idempotencyKey: "the-only-one",
    bodyBytes: 0,
    retrySign: "none" as const,
    parkedMax: undefined,
    requestId: "r",
    signal: new AbortController().signal,
  };
  const answers = await Promise.all([1, 2, 3].map(() => world.gateway.chat(call)));
  assert.equal(new Set(answers.map(({ streamId }) => streamId)).size, 1);
  for (const answer of answers) answer.delivered(true);
  await until(() => world.gateway.sessions.length === 0, "it is over");
  assert.equal(model.calls.length, 1);
});

test("a retry in the very moment in which its response is known to be broken comes to the answer", async (t) => {
  const { model, letGo } = haltingModel();
  const world = await World.begin(t, model);
  const call = {
    principal: "alice",
    request: parseChatRequest(JSON.parse(HELLO)),
    bodyHash: "of the body",
    idempotencyKey: undefined,
    bodyBytes: 0,
    retrySign: "none" as const,
    parkedMax: undefined,
    requestId: "r",
    signal: new AbortController().signal,
  };
  const broken = await world.gateway.chat(call);
  broken.delivered(false);
  const again = await world.gateway.chat(call);
  assert.equal(again.streamId, broken.streamId);
  letGo();
  again.delivered(true);
  await until(() => world.gateway.sessions.length === 0, "it is over");
  assert.equal(model.calls.length, 1);
});
