/**
 * The server's inbox: dedupe, conflict, gap, ack.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as inbox from "../../src/core/inbox.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { last, run } from "./run.ts";

const empty = inbox.init(0, [], false);
const macOf = (content: number): Uint8Array => Uint8Array.of(content, content >> 8, 7);
const chunk = (seqno: number, content = seqno, isClose = false, bytes = 1): inbox.Input => ({
  kind: "chunk",
  seqno,
  mac: macOf(content),
  bytes,
  isClose,
});
const committed = (nextSeqno: number): inbox.Input => ({ kind: "committed", nextSeqno });

/** So many chunks, each committed before the next. */
const durably = (count: number): readonly inbox.Input[] =>
  Array.from({ length: count }, (_, seqno) => [chunk(seqno), committed(seqno + 1)]).flat();

function told(effects: readonly inbox.Effect[]): readonly string[] {
  return effects.map((effect) =>
    effect.kind === "refuse" ? effect.code : `${effect.kind} ${String(effect.seqno)}`,
  );
}

test("A1: chunks are accepted in order, each once", () => {
  const [, effects] = run(inbox.step, empty, [chunk(0), chunk(1), chunk(1), chunk(0), chunk(2)]);
  assert.deepEqual(told(effects), ["accept 0", "accept 1", "accept 2"]);
});

test("A1: a chunk behind a gap is refused and not kept", () => {
  const [state, effects] = last(inbox.step, empty, [chunk(0), chunk(2)]);
  assert.deepEqual(told(effects), ["seqno_gap"]);
  assert.deepEqual(told(inbox.step(state, chunk(1))[1]), ["accept 1"]);
});

test("A3: an ack leaves when the commit is durable, and covers everything in it", () => {
  const [accepted, before] = run(inbox.step, empty, [chunk(0), chunk(1), chunk(2)]);
  assert.deepEqual(told(before), ["accept 0", "accept 1", "accept 2"]);
  const [, after] = run(inbox.step, accepted, [committed(2), committed(3)]);
  assert.deepEqual(told(after), ["ack 1", "ack 2"]);
});

test("A3: a duplicate of a chunk whose commit is in flight is answered by that commit, not before", () => {
  const [, early] = last(inbox.step, empty, [chunk(0), chunk(0)]);
  assert.deepEqual(told(early), []);
});

test("A2: the same content again is acknowledged again, with everything durable by now", () => {
  const [, effects] = last(inbox.step, empty, [chunk(0), chunk(1), committed(2), chunk(0)]);
  assert.deepEqual(told(effects), ["ack 1"]);
});

for (const [what, mac] of [
  ["other content", macOf(99)],
  ["a MAC of another length", Uint8Array.of(0)],
] as const) {
  test(`A2: the same seqno with ${what} is a conflict, durable or not`, () => {
    const other: inbox.Input = { kind: "chunk", seqno: 0, mac, bytes: 1, isClose: false };
    const [, early] = last(inbox.step, empty, [chunk(0), other]);
    assert.deepEqual(told(early), ["seqno_conflict"]);
    const [, late] = last(inbox.step, empty, [chunk(0), committed(1), other]);
    assert.deepEqual(told(late), ["seqno_conflict"]);
  });
}

test("A4: a restarted server knows the contents of the last chunks from its store", () => {
  const recovered = inbox.init(3, [macOf(0), macOf(1), macOf(2)], false);
  assert.deepEqual(told(inbox.step(recovered, chunk(1))[1]), ["ack 2"]);
  assert.deepEqual(told(inbox.step(recovered, chunk(1, 50))[1]), ["seqno_conflict"]);
  assert.deepEqual(told(inbox.step(recovered, chunk(3))[1]), ["accept 3"]);
});

test("A2: the oldest chunk that can be unacknowledged is compared, an older one is refused, not acked unseen", () => {
  const count = LIMITS.unackedChunksMax + 1;
  const [full] = run(inbox.step, empty, durably(count));
  assert.deepEqual(told(inbox.step(full, chunk(1))[1]), [`ack ${String(count - 1)}`]);
  assert.deepEqual(told(inbox.step(full, chunk(0))[1]), ["seqno_conflict"]);
});

test("F2: however many chunks came, only the newest MACs are kept", () => {
  const [state] = run(inbox.step, empty, durably(3 * LIMITS.unackedChunksMax));
  assert.equal(state.macs.length, LIMITS.unackedChunksMax);
});

test("E8, F2: a client may have 256 chunks open, and is refused with the 257th until a commit is durable", () => {
  const chunks = Array.from({ length: LIMITS.unackedChunksMax }, (_, seqno) => chunk(seqno));
  const [full, effects] = run(inbox.step, empty, chunks);
  assert.equal(effects.length, LIMITS.unackedChunksMax);
  const next = chunk(LIMITS.unackedChunksMax);
  assert.deepEqual(told(inbox.step(full, next)[1]), ["too_large"]);
  assert.deepEqual(told(last(inbox.step, full, [committed(1), next])[1]), ["accept 256"]);
});

test("E8, F2: a client may have 8 MiB open, and is refused with the next byte until a commit is durable", () => {
  const half = LIMITS.unackedBytesMax / 2;
  const [full, effects] = run(inbox.step, empty, [chunk(0, 0, false, half), chunk(1, 1, false, half)]);
  assert.deepEqual(told(effects), ["accept 0", "accept 1"]);
  assert.deepEqual(told(inbox.step(full, chunk(2))[1]), ["too_large"]);
  assert.deepEqual(told(last(inbox.step, full, [committed(1), chunk(2)])[1]), ["accept 2"]);
});

test("nothing follows a close, but the close itself may come again", () => {
  const [closed] = run(inbox.step, empty, [chunk(0), chunk(1, 1, true), committed(2)]);
  assert.deepEqual(told(inbox.step(closed, chunk(2))[1]), ["stream_ended"]);
  assert.deepEqual(told(inbox.step(closed, chunk(1, 1, true))[1]), ["ack 1"]);
  const reopened = inbox.init(1, [macOf(0)], true);
  assert.deepEqual(told(inbox.step(reopened, chunk(1))[1]), ["stream_ended"]);
});

test("A6: a commit that is reported twice acknowledges once", () => {
  const [, effects] = last(inbox.step, empty, [chunk(0), committed(1), committed(1)]);
  assert.deepEqual(told(effects), []);
});

test("a commit of what was not accepted, or a store that lost MACs, is our own bug", () => {
  assert.throws(() => inbox.step(empty, committed(1)), AssertionFailed);
  assert.throws(() => inbox.init(3, [macOf(0)], false), AssertionFailed);
});
