/**
 * What commits do to a stream's state.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import {
  applyCommit,
  type CommitShape,
  newStreamState,
  type StateChange,
  type StreamState,
} from "../../src/core/stream-state.ts";

const fresh = newStreamState(Uint8Array.of(1), 100, 1);
const commit = (chunkCount: number, eventCount: number, change: StateChange = {}): CommitShape => {
  return { chunkCount, eventCount, change };
};
const writer = (count: number, writerEpoch = count): StateChange["writer"] & object => ({
  writers: Array.from({ length: count }, (_, at) => ({
    journalId: `j${String(at)}`,
    sinceSeqno: 0,
    sinceEvent: 0,
  })),
  writerEpoch,
});

test("A1, B1: a new stream expects chunk 0 and event 1, and has no writer", () => {
  assert.equal(fresh.nextSeqno, 0);
  assert.equal(fresh.eventHead + 1, 1);
  assert.equal(fresh.eventFloor, 1);
  assert.equal(fresh.writerEpoch, 0);
});

test("a commit moves both heads and the time of the last activity", () => {
  const state = applyCommit(fresh, commit(2, 3), 150);
  assert.deepEqual([state.nextSeqno, state.eventHead, state.activityMs], [2, 3, 150]);
});

test("D7: a clock that jumps back does not make a stream older", () => {
  assert.equal(applyCommit(fresh, commit(1, 0), 50).activityMs, 100);
});

test("D1: every writer raises the epoch, and none is ever taken away", () => {
  const taken = applyCommit(fresh, commit(0, 0, { writer: writer(2, 3) }), 100);
  assert.equal(taken.writerEpoch, 3);
  for (const fallen of [writer(1, 3), writer(2, 2)])
    assert.throws(() => applyCommit(taken, commit(0, 0, { writer: fallen }), 100), AssertionFailed);
});

test("B5: a floor rises, never falls, and never passes the next event", () => {
  const trimmed = applyCommit(applyCommit(fresh, commit(0, 9), 100), commit(0, 0, { eventFloor: 5 }), 100);
  assert.equal(trimmed.eventFloor, 5);
  assert.equal(applyCommit(trimmed, commit(0, 1), 100).eventFloor, 5);
  assert.throws(() => applyCommit(trimmed, commit(0, 0, { eventFloor: 4 }), 100), AssertionFailed);
  assert.equal(applyCommit(trimmed, commit(0, 1, { eventFloor: 11 }), 100).eventFloor, 11);
  assert.throws(() => applyCommit(trimmed, commit(0, 1, { eventFloor: 12 }), 100), AssertionFailed);
});

test("B6: the end is an event, no event follows it, and it stays", () => {
  const ended = applyCommit(fresh, commit(0, 1, { end: "completed" }), 100);
  assert.throws(() => applyCommit(ended, commit(0, 1), 100), AssertionFailed);
  assert.equal(applyCommit(ended, commit(0, 0, { aborted: true }), 100).end, "completed");
  assert.throws(() => applyCommit(fresh, commit(0, 0, { end: "completed" }), 100), AssertionFailed);
});

test("A1: no chunk follows the close", () => {
  const closed = applyCommit(fresh, commit(3, 0, { closed: true }), 100);
  assert.throws(() => applyCommit(closed, commit(1, 0), 100), AssertionFailed);
  assert.equal(applyCommit(closed, commit(0, 1), 100).closed, true);
});

test("D6: whatever is committed, nothing ever goes back", () => {
  const shape = fc.record({
    chunkCount: fc.nat(3),
    eventCount: fc.nat(3),
    change: fc.record(
      {
        closed: fc.constant(true as const),
        aborted: fc.constant(true as const),
        end: fc.constantFrom("completed", "aborted", "failed"),
        eventFloor: fc.integer({ min: 1, max: 9 }),
        writer: fc.tuple(fc.nat(3), fc.nat(5)).map(([count, epoch]) => writer(count, epoch)),
        touched: fc.constant(true as const),
      },
      { requiredKeys: [] },
    ),
  });
  const isForward = (was: StreamState, is: StreamState): boolean =>
    is.nextSeqno >= was.nextSeqno &&
    is.eventHead >= was.eventHead &&
    is.eventFloor >= was.eventFloor &&
    is.activityMs >= was.activityMs &&
    is.writerEpoch >= was.writerEpoch &&
    (is.closed || !was.closed) &&
    (is.aborted || !was.aborted) &&
    (was.end === undefined || is.end === was.end);
  fc.assert(
    fc.property(fc.array(fc.tuple(shape, fc.nat(500)), { maxLength: 20 }), (commits) => {
      let state = fresh;
      for (const [one, nowMs] of commits) {
        let next = state;
        try {
          next = applyCommit(state, one, nowMs);
        } catch (refused) {
          assert.ok(refused instanceof AssertionFailed);
        }
        assert.ok(isForward(state, next));
        state = next;
      }
    }),
  );
});
