/**
 * The life of the store under a server: when it is opened anew, and when the server gives up.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as storeLife from "../../src/core/store-life.ts";
import { kinds, last, run } from "./run.ts";

const options = storeLife.DEFAULTS;
const open = storeLife.init(options, 1_000);
const failed = (nowMs: number): storeLife.Input => ({ kind: "failed", nowMs });
const opened = (nowMs: number): storeLife.Input => ({ kind: "opened", nowMs });
const due: storeLife.Input = { kind: "due" };
const refused: storeLife.Input = { kind: "refused" };
const stop: storeLife.Input = { kind: "stop" };

test("F5: a store that failed is taken down at once, and opened after a pause", () => {
  const [state, effects] = run(storeLife.step, open, [failed(2_000), due, opened(8_000)]);
  assert.deepEqual(effects, [
    { kind: "take_down" },
    { kind: "pause", pauseMs: 5_000 },
    { kind: "open" },
    { kind: "put_up", downMs: 6_000 },
  ]);
  assert.ok(storeLife.isOpen(state));
});

test("F5: three openings in a row that fail, each after a longer pause, are the end", () => {
  const [state, effects] = run(storeLife.step, open, [
    failed(2_000),
    due,
    refused,
    due,
    refused,
    due,
    refused,
  ]);
  const pauses = effects.flatMap((effect) => (effect.kind === "pause" ? [effect.pauseMs] : []));
  assert.deepEqual(pauses, [5_000, 15_000, 45_000]);
  assert.deepEqual(kinds(effects).filter((kind) => kind === "give_up" || kind === "open").length, 4);
  assert.equal(effects.at(-1)?.kind, "give_up");
  assert.equal(state.kind, "given_up");
  assert.equal(storeLife.failures(state), 3);
});

test("F5: an opening that does not hold is one that failed", () => {
  const flapping = [failed(0), due, opened(5_000), failed(5_100), due, opened(20_000), failed(20_001)];
  const [state] = run(storeLife.step, open, flapping);
  assert.equal(storeLife.failures(state), 2);
  assert.equal(storeLife.downMs(state, 20_001), 20_001, "it is one outage");
  const [, effects] = run(storeLife.step, state, [due, opened(65_000), failed(66_000)]);
  assert.equal(effects.at(-1)?.kind, "give_up");
});

test("an opening that held has ended the outage: the next failure begins another one", () => {
  const [state, effects] = last(storeLife.step, open, [
    failed(0),
    due,
    refused,
    due,
    opened(20_000),
    failed(20_000 + options.holdsMs),
  ]);
  assert.equal(storeLife.failures(state), 0);
  assert.deepEqual(effects, [{ kind: "take_down" }, { kind: "pause", pauseMs: 5_000 }]);
});

test("the process is ill when the store has been down for a minute, and well as soon as it is open", () => {
  const [down] = run(storeLife.step, open, [failed(2_000)]);
  assert.ok(!storeLife.isIll(open, 1e9));
  assert.equal(storeLife.downMs(open, 1e9), undefined);
  assert.ok(!storeLife.isIll(down, 61_999));
  assert.ok(storeLife.isIll(down, 62_000));
  const [back] = run(storeLife.step, down, [due, opened(90_000)]);
  assert.ok(!storeLife.isIll(back, 90_000));
  const [again] = run(storeLife.step, back, [failed(90_500)]);
  assert.ok(storeLife.isIll(again, 90_500), "it was the same outage");
});

test("a server that shuts down opens nothing any more, and closes what was being opened", () => {
  const stopped = run(storeLife.step, open, [failed(0), stop, due, refused, failed(1)]);
  assert.deepEqual(kinds(stopped[1]), ["take_down", "pause"]);
  assert.ok(!storeLife.isIll(stopped[0], 1e9));
  assert.equal(storeLife.failures(stopped[0]), 0);
  const [, effects] = last(storeLife.step, open, [failed(0), due, stop, opened(1)]);
  assert.deepEqual(effects, [{ kind: "put_away" }]);
});

test("what was not ordered is a bug", () => {
  for (const input of [due, opened(0), refused]) {
    assert.throws(() => storeLife.step(open, input), AssertionFailed);
  }
  const [down] = run(storeLife.step, open, [failed(0)]);
  assert.throws(() => storeLife.step(down, failed(1)), AssertionFailed);
  assert.throws(() => storeLife.init({ ...options, failuresMax: 0 }, 0), AssertionFailed);
});

test("F5: whatever fails when, no opening follows the one that was given up, and each opening was paused for", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(100_000)), { maxLength: 20 }), (turns) => {
      let nowMs = 0;
      let state = storeLife.init(options, nowMs);
      const log: string[] = [];
      const put = (input: storeLife.Input): void => {
        const [next, effects] = storeLife.step(state, input);
        state = next;
        log.push(...kinds(effects));
      };
      for (const [isOpened, laterMs] of turns) {
        nowMs += laterMs;
        if (state.kind === "open") put(failed(nowMs));
        else if (state.kind === "pausing") put(due);
        else if (state.kind === "opening") put(isOpened ? opened(nowMs) : refused);
      }
      assert.ok(!log.slice(0, -1).includes("give_up"));
      for (const [at, kind] of log.entries()) if (kind === "open") assert.equal(log[at - 1], "pause");
      assert.ok(storeLife.failures(state) <= options.failuresMax);
    }),
  );
});
