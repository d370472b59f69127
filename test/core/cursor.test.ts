/**
 * How a client follows the event log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import * as cursor from "../../src/core/cursor.ts";
import { kinds, run } from "./run.ts";

const event = (eventId: number, covers = 1): cursor.Input => {
  return { kind: "event", eventId, covers, end: undefined };
};

test("B1: only the next event is taken; a lower one is dropped, a higher one is a gap", () => {
  const [state, effects] = run(cursor.step, cursor.init(0), [
    event(1),
    event(2),
    event(2),
    event(1),
    event(4),
  ]);
  assert.deepEqual(kinds(effects), ["take", "take", "gap"]);
  assert.equal(state.taken, 2);
});

test("B1: after a gap the event that was missing is still taken", () => {
  const [state, effects] = run(cursor.step, cursor.init(0), [event(2), event(1), event(2)]);
  assert.deepEqual(kinds(effects), ["gap", "take", "take"]);
  assert.equal(state.taken, 2);
});

test("B4: a joined delta is taken when it begins where the cursor stands, and moves it over all it covers", () => {
  const [state, effects] = run(cursor.step, cursor.init(3), [event(6, 3), event(7)]);
  assert.deepEqual(kinds(effects), ["take", "take"]);
  assert.equal(state.taken, 7);
});

test("B4: a joined delta that begins before the cursor would repeat text, one that begins after would skip it", () => {
  const taken4 = cursor.init(4);
  assert.deepEqual(kinds(cursor.step(taken4, event(6, 3))[1]), ["gap"]);
  assert.deepEqual(kinds(cursor.step(taken4, event(8, 3))[1]), ["gap"]);
  assert.deepEqual(cursor.step(taken4, event(4, 3)), [taken4, []]);
});

test("B6: the end is an event, and says why", () => {
  const ended: cursor.Input = { kind: "event", eventId: 1, covers: 1, end: "completed" };
  const [state, effects] = cursor.step(cursor.init(0), ended);
  assert.deepEqual(effects, [{ kind: "take", eventId: 1, end: "completed" }]);
  assert.equal(state.end, "completed");
});

test("B7: a heartbeat betrays a lost last frame and never moves the cursor", () => {
  const [state, effects] = run(cursor.step, cursor.init(3), [
    { kind: "heartbeat", eventHead: 2 },
    { kind: "heartbeat", eventHead: 3 },
    { kind: "heartbeat", eventHead: 4 },
  ]);
  assert.deepEqual(kinds(effects), ["gap"]);
  assert.equal(state.taken, 3);
});

test("B1, B4: whatever arrives, what is taken covers 1 ... n, each once, in order", () => {
  const frame = fc
    .record({ eventId: fc.integer({ min: 1, max: 30 }), covers: fc.integer({ min: 1, max: 4 }) })
    .filter(({ eventId, covers }) => eventId >= covers);
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 200 }), (frames) => {
      let state = cursor.init(0);
      const seen: number[] = [];
      for (const { eventId, covers } of frames) {
        const [next, effects] = cursor.step(state, event(eventId, covers));
        state = next;
        if (effects[0]?.kind !== "take") continue;
        for (let id = eventId - covers + 1; id <= eventId; id++) seen.push(id);
      }
      assert.deepEqual(
        seen,
        Array.from({ length: state.taken }, (_, at) => at + 1),
      );
    }),
  );
});

test("B1: an event that stands for nothing, or for more than there was, is the server's mistake and not taken", () => {
  assert.deepEqual(kinds(cursor.step(cursor.init(0), event(1, 0))[1]), ["gap"]);
  assert.deepEqual(kinds(cursor.step(cursor.init(0), event(2, 0))[1]), ["gap"]);
  assert.deepEqual(kinds(cursor.step(cursor.init(0), event(1, 2))[1]), ["gap"]);
  assert.deepEqual(kinds(cursor.step(cursor.init(0), event(0, 1))[1]), []);
});
