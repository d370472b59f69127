/**
 * Which target and which API key are asked next: the whole decision, on a clock of the test's.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure, type ModelFailureKind } from "../../../../src/agent/model.ts";
import {
  type Health,
  isCooling,
  newHealth,
  noteAnswer,
  noteFailure,
  type Target,
} from "../../../../src/agent/models/routing/health.ts";
import { firstAsk, newRoute, nextAsk, type Route } from "../../../../src/agent/models/routing/route.ts";

const COOLDOWN = { failures: 3, ms: 30_000 };
const targetOf = (id: string, keys: readonly string[] = ["KEY"]): Target => ({
  id,
  keys,
  cooldown: COOLDOWN,
});
const [A, B, C] = [targetOf("a/m"), targetOf("b/m"), targetOf("c/m")];

const failureOf = (kind: ModelFailureKind, retryAfterMs?: number): ModelFailure =>
  new ModelFailure(kind, kind, {
    isPassing: kind === "unavailable" || kind === "rate_limited",
    retryAfterMs,
  });
const DOWN = failureOf("unavailable");
const LIMITED = failureOf("rate_limited");
const REFUSED = failureOf("invalid_request");
const NO_KEY = failureOf("unauthenticated");

interface Setting {
  readonly health?: Health;
  readonly nowMs?: number;
  readonly mayWait?: (pauseMs: number) => boolean;
}

/** Asks, fails in this way, asks again, until there is nothing left: who was asked with which API key, and the failure at the end. */
function played(
  targets: readonly Target[],
  fail: (id: string, key: number) => ModelFailure,
  { health = newHealth(), nowMs = 1_000, mayWait = () => true }: Setting = {},
): { readonly asked: readonly string[]; readonly failure: ModelFailure; readonly pauses: readonly number[] } {
  const route: Route = newRoute(health, targets, nowMs);
  const asked: string[] = [];
  const pauses: number[] = [];
  let ask = firstAsk(health, route, nowMs) ?? assert.fail("nothing to ask");
  for (;;) {
    asked.push(ask.target.keys.length === 1 ? ask.target.id : `${ask.target.id}#${ask.key}`);
    pauses.push(ask.pauseMs);
    const failure = fail(ask.target.id, ask.key);
    noteFailure(health, ask.target, ask.key, failure, nowMs);
    const backoff = { backoffMs: 100, retryAfterMsMax: 20_000 };
    const next = nextAsk(health, route, ask.key, failure, { nowMs, random: 0.5, backoff, mayWait });
    if (next instanceof ModelFailure) return { asked, failure: next, pauses };
    ask = next;
  }
}

test("a target is asked three times with pauses, then its fallbacks at once, and the failure is the first one's", () => {
  const first = failureOf("unavailable");
  const { asked, failure, pauses } = played([A, B], (id) => (id === A.id ? first : DOWN));
  assert.deepEqual(asked, ["a/m", "a/m", "a/m", "b/m", "b/m", "b/m"]);
  assert.equal(failure, first);
  assert.deepEqual(pauses, [0, 50, 100, 0, 50, 100]);
});

test("a request that is refused is refused: no other target gets it", () => {
  for (const refusal of [REFUSED, NO_KEY, failureOf("context_too_long"), failureOf("content_filtered")])
    assert.deepEqual(played([A, B], () => refusal).asked, ["a/m"]);
});

test("a fallback that refuses is passed over", () => {
  const { asked, failure } = played([A, B, C], (id) => (id === B.id ? REFUSED : DOWN));
  assert.deepEqual(asked, ["a/m", "a/m", "a/m", "b/m", "c/m", "c/m", "c/m"]);
  assert.equal(failure, DOWN);
});

test("an API key that is limited or refused gives way to another at once, and each is asked once", () => {
  const keyed = targetOf("a/m", ["K0", "K1", "K2", "K3"]);
  for (const failure of [NO_KEY, failureOf("rate_limited", 60_000)]) {
    const { asked, pauses } = played([keyed], () => failure);
    assert.deepEqual(asked, ["a/m#0", "a/m#1", "a/m#2", "a/m#3"]);
    assert.ok(pauses.every((pauseMs) => pauseMs === 0));
  }
});

test("API keys are used in turn, and one that cools down is passed over", () => {
  const health = newHealth();
  const keyed = targetOf("a/m", ["K0", "K1", "K2"]);
  const first = (nowMs: number): number | undefined =>
    firstAsk(health, newRoute(health, [keyed], nowMs), nowMs)?.key;
  assert.deepEqual([first(0), first(0), first(0), first(0)], [0, 1, 2, 0]);
  noteFailure(health, keyed, 1, LIMITED, 0);
  assert.deepEqual([first(1), first(1), first(1)], [2, 0, 2]);
  assert.deepEqual([first(30_000), first(30_000)], [0, 1], "it has cooled down");
});

test("a pause that may not be waited for leads to the fallback; so does one that is too long", () => {
  const brief = played([A, B], () => DOWN, { mayWait: (pauseMs) => pauseMs === 0 });
  assert.deepEqual(brief.asked, ["a/m", "b/m"]);
  const long = played([A, B], () => failureOf("rate_limited", 60_000));
  assert.deepEqual(long.asked, ["a/m", "b/m"]);
});

test("G2: when no request is left, nothing is asked", () => {
  assert.deepEqual(played([A, B], () => DOWN, { mayWait: () => false }).asked, ["a/m"]);
});

test("a target cools down after three failures in a row, and is asked again when it has", () => {
  const health = newHealth();
  played([A, B], (id) => (id === A.id ? DOWN : REFUSED), { health, nowMs: 0 });
  assert.ok(isCooling(health, A, 29_999));
  const order = (nowMs: number): readonly string[] =>
    newRoute(health, [A, B], nowMs).targets.map(({ id }) => id);
  assert.deepEqual(order(29_999), ["b/m", "a/m"]);
  assert.deepEqual(order(30_000), ["a/m", "b/m"]);
});

test("an answer between two failures is a new beginning", () => {
  const health = newHealth();
  for (let round = 0; round < 5; round++) {
    noteFailure(health, A, 0, DOWN, 0);
    noteFailure(health, A, 0, DOWN, 0);
    noteAnswer(health, A, 0);
  }
  assert.ok(!isCooling(health, A, 0));
});

test("a lone target is asked although it has failed, and a lone API key although it was limited", () => {
  const health = newHealth();
  for (let times = 0; times < 2; times++)
    assert.deepEqual(played([A], () => LIMITED, { health }).asked, ["a/m", "a/m", "a/m"]);
});

test("what a request was refused for never counts against its target", () => {
  const health = newHealth();
  for (let times = 0; times < 10; times++) noteFailure(health, A, 0, REFUSED, 0);
  assert.ok(!isCooling(health, A, 0));
});

test("a target that is cooling down is asked last; the failure is still that of the model that was asked for", () => {
  const health = newHealth();
  for (let times = 0; times < 3; times++) noteFailure(health, A, 0, DOWN, 1_000);
  const own = failureOf("unavailable");
  const { asked, failure } = played([A, B], (id) => (id === A.id ? own : DOWN), { health });
  assert.deepEqual(asked, ["b/m", "b/m", "b/m", "a/m", "a/m", "a/m"]);
  assert.equal(failure, own);
});

test("of too many targets the one that failed longest ago is forgotten", () => {
  const health = newHealth();
  const others = Array.from({ length: 1_024 }, (_, at) => targetOf(`other/${at}`));
  for (let times = 0; times < COOLDOWN.failures; times++) noteFailure(health, A, 0, DOWN, 1_000);
  for (const other of others.slice(1)) noteFailure(health, other, 0, DOWN, 1_000);
  noteFailure(health, A, 0, DOWN, 1_000);
  for (const other of others.slice(0, 1)) noteFailure(health, other, 0, DOWN, 1_000);
  assert.ok(isCooling(health, A, 1_001));
  assert.equal(health.targets.size, 1_024);
});
