/**
 * How a client follows the event log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import * as cursor from "../../src/core/cursor.ts";
import { kinds, run } from "./run.ts";

const event = (eventId: number): cursor.Input => ({ kind: "event", eventId, end: undefined });

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

test("B6: the end is an event, and says why", () => {
  const ended: cursor.Input = { kind: "event", eventId: 1, end: "completed" };
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

test("B1, B4: whatever arrives, what is taken is 1 ... n, each once, in order", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 200 }), (eventIds) => {
      let state = cursor.init(0);
      const seen: number[] = [];
      for (const eventId of eventIds) {
        const [next, effects] = cursor.step(state, event(eventId));
        state = next;
        if (effects[0]?.kind === "take") seen.push(eventId);
      }
      assert.deepEqual(
        seen,
        Array.from({ length: state.taken }, (_, at) => at + 1),
      );
    }),
  );
});

test("B1: an event without a number is not taken by a stream that has numbers", () => {
  assert.deepEqual(cursor.step(cursor.init(0), event(0))[1], []);
});
