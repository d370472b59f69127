/**
 * One connection's sender: a cursor over the durable log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as sender from "../../src/core/sender.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { last, run } from "./run.ts";

const options: sender.Options = { pauseBytes: 100, slowReaderMs: 1_000 };
const start = (cursor: number, head: number): sender.State => sender.init(options, cursor, head)[0];
const head = (eventHead: number): sender.Input => ({ kind: "head", eventHead });
const written = (through: number, waitingBytes = 0, nowMs = 0): sender.Input => {
  return { kind: "written", through, waitingBytes, nowMs };
};
const read = (from: number, kib = 16): sender.Effect => ({ kind: "read", from, bytesMax: kib * 1024 });
const drained: sender.Input = { kind: "drained" };
const tick = (nowMs: number): sender.Input => ({ kind: "tick", nowMs });

test("B8: a connection that has seen events resumes at its cursor + 1", () => {
  const [, effects] = sender.init(options, 4, 9);
  assert.deepEqual(effects, [read(5)]);
});

test("B2: at the head nothing is read until something more is durable", () => {
  const [state, effects] = sender.init(options, 9, 9);
  assert.deepEqual(effects, []);
  assert.deepEqual(sender.step(state, head(9))[1], []);
  assert.deepEqual(sender.step(state, head(11))[1], [read(10)]);
});

test("B1: one read at a time, so events cannot overtake each other", () => {
  const [reading, effects] = run(sender.step, start(0, 3), [head(5), head(8)]);
  assert.deepEqual(effects, []);
  assert.deepEqual(sender.step(reading, written(3))[1], [read(4, 32)]);
});

test("F2: a reader that is far behind is read for in pages, a small one first, each twice as large as the one before, up to a bound", () => {
  let [state, effects] = sender.init(options, 0, 1_000);
  const pages: number[] = [];
  for (let through = 1; through <= 7; through++) {
    pages.push(...effects.map((effect) => (effect.kind === "read" ? effect.bytesMax / 1024 : Number.NaN)));
    [state, effects] = sender.step(state, written(through));
  }
  assert.deepEqual(pages, [16, 32, 64, 128, 256, 256, 256]);
});

test("B4: replay and live delivery are one rule: the log is read without gap or repetition", () => {
  const run1 = fc.record({ newEvents: fc.nat(5), writes: fc.integer({ min: 1, max: 5 }) });
  fc.assert(
    fc.property(fc.nat(20), fc.nat(20), fc.array(run1), (cursor, ahead, turns) => {
      let [state, effects] = sender.init(options, cursor, cursor + ahead);
      let expected = cursor + 1;
      let durable = cursor + ahead;
      const follow = (input: sender.Input): void => {
        [state, effects] = sender.step(state, input);
      };
      for (const { newEvents, writes } of turns) {
        durable += newEvents;
        const before = effects;
        follow(head(durable));
        // A read that is under way stays; a new one starts only where none was.
        if (effects.length === 0) effects = before;
        for (const effect of effects) {
          assert.partialDeepStrictEqual(effect, { kind: "read", from: expected });
          const through = Math.min(durable, expected + writes - 1);
          follow(written(through));
          expected = through + 1;
        }
      }
    }),
  );
});

test("F2: nothing is read while too much waits unsent, and reading goes on when it has drained", () => {
  const [blocked, effects] = run(sender.step, start(0, 5), [written(1, 101), head(9)]);
  assert.deepEqual(effects, []);
  assert.deepEqual(sender.step(blocked, drained)[1], [read(2, 32)]);
});

test("just as much as may wait does not pause", () => {
  const [, effects] = run(sender.step, start(0, 5), [written(1, 100)]);
  assert.deepEqual(effects, [read(2, 32)]);
});

test("E8: the send queue may hold 4 MiB; one byte more and the reader is cut", () => {
  const [, within] = run(sender.step, start(0, 5), [written(1, LIMITS.sendQueueBytesMax)]);
  assert.deepEqual(within, []);
  const [, beyond] = run(sender.step, start(0, 5), [written(1, LIMITS.sendQueueBytesMax + 1)]);
  assert.deepEqual(
    beyond.map((effect) => (effect.kind === "cut" ? effect.code : effect.kind)),
    ["overloaded"],
  );
});

test("F2: a reader that does not drain is cut after its time, one that drains or is idle never", () => {
  const cut = (inputs: readonly sender.Input[]): boolean =>
    last(sender.step, start(0, 5), inputs)[1].some((effect) => effect.kind === "cut");
  assert.equal(cut([written(1, 101, 50), tick(1_050)]), false);
  assert.equal(cut([written(1, 101, 50), tick(1_051)]), true);
  assert.equal(cut([written(1, 101, 50), drained, tick(9_999)]), false);
  assert.equal(cut([written(5, 0, 50), tick(9_999)]), false);
});

test("B1: a write that skips back, goes beyond the durable head or was not asked for is our own bug", () => {
  assert.throws(() => sender.step(start(2, 5), written(2)), AssertionFailed);
  assert.throws(() => sender.step(start(2, 5), written(6)), AssertionFailed);
  const [blocked] = run(sender.step, start(0, 5), [written(1, 101)]);
  assert.throws(() => sender.step(blocked, written(2)), AssertionFailed);
  assert.throws(() => sender.step(start(2, 5), head(4)), AssertionFailed);
});
