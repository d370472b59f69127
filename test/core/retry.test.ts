/**
 * What a client does about a failure, and when it tries again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as retry from "../../src/core/retry.ts";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import { last, run } from "./run.ts";

const options: retry.Options = {
  baseMs: 100,
  capMs: 1_000,
  budget: { burst: 10, refillMs: 5_000 },
  giveUpAfterMs: 60_000,
};
const start = retry.init(options, 0);

function failed(code: ErrorCode, nowMs = 0, random = 0.5, retryAfterMs?: number): retry.Input {
  return { kind: "failed", code, message: "it broke", retryAfterMs, nowMs, random };
}

function wanted(effects: readonly retry.Effect[]): readonly string[] {
  return effects.map((effect) => (effect.kind === "connect" ? `at ${String(effect.atMs)}` : effect.kind));
}

for (const code of ["seqno_conflict", "fenced", "not_found", "invalid_frame", "stream_gone"] as const) {
  test(`F3: ${code} is never tried again`, () => {
    assert.deepEqual(wanted(retry.step(start, failed(code))[1]), ["give_up"]);
  });
}

for (const code of ["connection_lost", "event_gap", "unavailable", "overloaded", "internal"] as const) {
  test(`F3: ${code} is tried again after a jittered delay`, () => {
    assert.deepEqual(wanted(retry.step(start, failed(code, 1_000, 0.5))[1]), ["at 1050"]);
  });
}

test("F3: the jitter is full: from at once to the bound, which grows by half up to the cap", () => {
  const delays = (random: number): readonly string[] =>
    wanted(
      run(
        retry.step,
        start,
        Array.from({ length: 6 }, () => failed("internal", 0, random)),
      )[1],
    );
  assert.deepEqual(delays(0), ["at 0", "at 0", "at 0", "at 0", "at 0", "at 0"]);
  assert.deepEqual(delays(0.999), ["at 100", "at 150", "at 225", "at 338", "at 507", "at 760"]);
});

test("F3: every delay lies between the server's retryAfter and that plus the bound, while the budget lasts", () => {
  const draw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.nat(9), draw, fc.nat(50_000), (failures, random, retryAfterMs) => {
      const before = Array.from({ length: failures }, () => failed("internal"));
      const [, [effect]] = last(retry.step, start, [
        ...before,
        failed("overloaded", 0, random, retryAfterMs),
      ]);
      assert.equal(effect?.kind, "connect");
      const bound = Math.min(options.capMs, Math.ceil(options.baseMs * 1.5 ** failures));
      assert.ok(effect.atMs >= retryAfterMs && effect.atMs <= retryAfterMs + bound);
      assert.equal(retry.backoffBoundMs(options, failures), bound);
    }),
  );
});

test("F3: a short outage is over soon: five tries within the first second, and the wait is never longer than the outage was", () => {
  for (const random of [0.25, 0.5, 0.75, 0.999]) {
    let [state, nowMs, tries] = [retry.init(retry.DEFAULTS, 0), 0, 0];
    while (nowMs < 20_000) {
      const beganMs = nowMs;
      const [next, [effect]] = retry.step(state, failed("connection_lost", nowMs, random));
      assert.ok(effect?.kind === "connect");
      [state, nowMs] = [next, effect.atMs];
      if (nowMs <= 1_000) tries++;
      if (beganMs > 1_000) assert.ok(nowMs - beganMs <= beganMs, `${nowMs - beganMs} after ${beganMs}`);
    }
    assert.ok(random > 0.8 ? tries >= 4 : tries >= 5, `${tries} tries`);
  }
});

test("F3: the bound stays at the cap after any number of failures", () => {
  assert.equal(retry.backoffBoundMs(options, 1e9), options.capMs);
});

test("F3: beyond the budget an attempt waits for its token, however lucky the jitter", () => {
  const failures = Array.from({ length: 12 }, () => failed("connection_lost", 0, 0));
  assert.deepEqual(wanted(run(retry.step, start, failures)[1]).slice(-3), ["at 0", "at 5000", "at 10000"]);
});

test("F3: delays shrink again only after something really moved", () => {
  const moved: retry.Input = { kind: "progress", nowMs: 0 };
  const [, without] = last(retry.step, start, [failed("internal"), failed("internal"), failed("internal")]);
  assert.deepEqual(wanted(without), ["at 113"]);
  const [, after] = last(retry.step, start, [
    failed("internal"),
    failed("internal"),
    moved,
    failed("internal"),
  ]);
  assert.deepEqual(wanted(after), ["at 50"]);
});

const welcomed = (nowMs: number): retry.Input => ({ kind: "welcomed", nowMs });
const wake = (nowMs: number): retry.Input => ({ kind: "wake", nowMs });

test("the credentials are asked for once, and again only after they have worked", () => {
  const unauthenticated = failed("unauthenticated");
  assert.deepEqual(wanted(run(retry.step, start, [unauthenticated, unauthenticated])[1]), ["ask", "give_up"]);
  assert.deepEqual(wanted(last(retry.step, start, [unauthenticated, welcomed(5), unauthenticated])[1]), [
    "ask",
  ]);
});

test("F3: a server that welcomes and hangs up at once earns no shorter delay", () => {
  const inputs = [failed("internal"), welcomed(0), failed("internal"), welcomed(0), failed("internal")];
  assert.deepEqual(wanted(last(retry.step, start, inputs)[1]), ["at 113"]);
});

test("F1: a connection that worked until now is no reason to give up, however quiet it was", () => {
  const quiet = [1, 2, 3, 4, 5].map((nowMs) => failed("connection_lost", nowMs));
  const [, effects] = last(retry.step, start, [
    ...quiet,
    welcomed(100_000),
    failed("connection_lost", 100_001),
  ]);
  assert.equal(effects[0]?.kind, "connect");
});

test("F3: a wake does not wait out the jitter", () => {
  assert.deepEqual(wanted(last(retry.step, start, [failed("internal", 0, 0.9), wake(1)])[1]), ["at 1"]);
});

test("F3: a wake does not come before the server wants to see us", () => {
  const busy = failed("overloaded", 0, 0, 5_000);
  assert.deepEqual(wanted(last(retry.step, start, [busy, wake(10)])[1]), ["at 5000"]);
  assert.deepEqual(wanted(last(retry.step, start, [busy, wake(10), wake(5_000)])[1]), ["at 5000"]);
});

test("F3: a network that flaps, waking the client each time, stays within the budget and runs into no debt", () => {
  let state = start;
  let attempts = 0;
  let nextMs = Number.POSITIVE_INFINITY;
  for (let nowMs = 0; nowMs < 50_000; nowMs += 10) {
    let effects: readonly retry.Effect[];
    [state, effects] = retry.step(state, wake(nowMs));
    const [woken] = effects;
    assert.ok(woken?.kind === "connect");
    nextMs = Math.min(nextMs, woken.atMs);
    if (nextMs > nowMs) continue;
    attempts++;
    [state, effects] = retry.step(state, failed("connection_lost", nowMs, 0));
    const [planned] = effects;
    assert.ok(planned?.kind === "connect");
    nextMs = planned.atMs;
  }
  const { burst, refillMs } = options.budget;
  assert.ok(attempts <= burst + 50_000 / refillMs, `${String(attempts)} attempts`);
  assert.ok(attempts >= 50_000 / refillMs / 2, `${String(attempts)} attempts`);
});

test("F1: without progress for long enough the client gives up", () => {
  const fails = (nowMs: number): retry.Input => failed("connection_lost", nowMs);
  const early = [1, 2, 3, 4, 5].map(fails);
  assert.deepEqual(wanted(last(retry.step, start, [...early, fails(60_000)])[1]), ["at 60380"]);
  assert.deepEqual(wanted(last(retry.step, start, [...early, fails(60_001)])[1]), ["give_up"]);
});

test("a machine that slept for hours gets some tries before the time counts against it", () => {
  const fails = Array.from({ length: 6 }, () => failed("connection_lost", 9_999_999, 0));
  const [, effects] = run(retry.step, start, fails);
  assert.deepEqual(
    effects.map(({ kind }) => kind),
    ["connect", "connect", "connect", "connect", "connect", "give_up"],
  );
});

test("jitter outside of 0 to 1 is our own bug", () => {
  assert.throws(() => retry.step(start, failed("internal", 0, 1)), AssertionFailed);
  assert.throws(() => retry.step(start, failed("internal", 0, -0.1)), AssertionFailed);
});
