/**
 * The client's outbox: numbering, journaling, sending, acknowledging.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as outbox from "../../src/core/outbox.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { last, only, run } from "./run.ts";

const empty = outbox.init({ numbered: true, acked: 0, unackedBytes: [] });
const submit: outbox.Input = { kind: "submit", bytes: 10 };
const welcome = (nextSeqno: number, inline = 0): outbox.Input => ({ kind: "welcome", nextSeqno, inline });
const journaled = (next: number): outbox.Input => ({ kind: "journaled", next });
const ack = (nextSeqno: number): outbox.Input => ({ kind: "ack", nextSeqno });
const detached: outbox.Input = { kind: "detached" };

function sent(effects: readonly outbox.Effect[]): readonly number[] {
  return only(effects, "transmit").map(({ seqno }) => seqno);
}

test("A1: chunks get the seqnos 0, 1, 2 in the order they are said", () => {
  const [, effects] = run(outbox.step, empty, [submit, submit, submit]);
  assert.deepEqual(effects, [
    { kind: "journal", seqno: 0 },
    { kind: "journal", seqno: 1 },
    { kind: "journal", seqno: 2 },
  ]);
});

test("A5: a chunk leaves only once the journal has it, although the connection is there", () => {
  const [waiting, before] = run(outbox.step, empty, [welcome(0), submit, submit]);
  assert.deepEqual(sent(before), []);
  const [, after] = run(outbox.step, waiting, [journaled(1)]);
  assert.deepEqual(sent(after), [0]);
});

test("A5: a chunk that is on disk waits for a connection", () => {
  const [waiting, before] = run(outbox.step, empty, [submit, journaled(1)]);
  assert.deepEqual(sent(before), []);
  const [, after] = run(outbox.step, waiting, [welcome(0)]);
  assert.deepEqual(sent(after), [0]);
});

test("A5: an inline chunk 0 travelled with the attach and is not sent a second time on that connection", () => {
  const [, effects] = run(outbox.step, empty, [submit, submit, welcome(0, 1), journaled(2)]);
  assert.deepEqual(sent(effects), [1]);
});

test("A5: an inline chunk 0 whose connection broke waits for the journal like any other", () => {
  const [waiting, before] = run(outbox.step, empty, [submit, welcome(0, 1), detached, welcome(0)]);
  assert.deepEqual(sent(before), []);
  const [, after] = run(outbox.step, waiting, [journaled(1)]);
  assert.deepEqual(sent(after), [0]);
});

test("A5: an inline chunk 0 may be acknowledged before its record is synced", () => {
  const [state, effects] = run(outbox.step, empty, [
    submit,
    welcome(1, 1),
    journaled(1),
    submit,
    journaled(2),
  ]);
  assert.deepEqual(sent(effects), [1]);
  assert.equal(state.acked, 1);
});

test("A6: a welcome repeats the ack, so a lost ack costs nothing", () => {
  const [state, effects] = last(outbox.step, empty, [
    submit,
    submit,
    submit,
    journaled(3),
    welcome(0),
    detached,
    welcome(2),
  ]);
  assert.deepEqual(effects, [
    { kind: "release", below: 2 },
    { kind: "transmit", seqno: 2 },
  ]);
  assert.equal(state.acked, 2);
});

test("A6: acks are cumulative, and an older one that comes late changes nothing", () => {
  const [acked] = run(outbox.step, empty, [submit, submit, journaled(2), welcome(0), ack(2)]);
  assert.deepEqual(outbox.step(acked, ack(1)), [acked, []]);
});

test("A6: after a break everything unacknowledged is played back, in order and nothing else", () => {
  const inputs = [submit, submit, submit, journaled(3), welcome(0), ack(1), detached, welcome(1)];
  const [, effects] = last(outbox.step, empty, inputs);
  assert.deepEqual(sent(effects), [1, 2]);
});

test("A5: an outbox rebuilt from the journal goes on with the next seqno and plays back the rest", () => {
  const recovered = outbox.init({ numbered: true, acked: 5, unackedBytes: [10, 20] });
  const [, effects] = run(outbox.step, recovered, [welcome(5), submit]);
  assert.deepEqual(sent(effects), [5, 6]);
  assert.deepEqual(only(effects, "journal"), [{ kind: "journal", seqno: 7 }]);
});

test("A3: a server that has forgotten what it acknowledged is not trusted any further", () => {
  const recovered = outbox.init({ numbered: true, acked: 5, unackedBytes: [] });
  const [, effects] = run(outbox.step, recovered, [welcome(4)]);
  assert.deepEqual(
    only(effects, "fail").map(({ code }) => code),
    ["stream_failed"],
  );
});

for (const input of [welcome(3), ack(3)]) {
  test(`A2: a ${input.kind} for more than was ever said is a conflict and sends nothing`, () => {
    const [said] = run(outbox.step, empty, [submit, submit, journaled(2)]);
    const [state, effects] = outbox.step(said, input);
    assert.deepEqual(
      effects.map((effect) => (effect.kind === "fail" ? effect.code : effect.kind)),
      ["seqno_conflict"],
    );
    assert.equal(state.acked, 0);
  });
}

test("D2: a takeover has no numbers until its first welcome says where numbering goes on", () => {
  const takeover = outbox.init({ numbered: false, acked: 0, unackedBytes: [] });
  assert.equal(outbox.hasRoom(takeover, 1), false);
  const [, effects] = run(outbox.step, takeover, [welcome(7), submit, journaled(8)]);
  assert.deepEqual(effects, [
    { kind: "journal", seqno: 7 },
    { kind: "transmit", seqno: 7 },
  ]);
});

test("E8: the 256th unacknowledged chunk is taken, the 257th waits for an ack", () => {
  const submits = Array.from({ length: LIMITS.unackedChunksMax - 1 }, () => submit);
  const [almost] = run(outbox.step, empty, submits);
  assert.equal(outbox.hasRoom(almost, 1), true);
  const [full] = run(outbox.step, almost, [submit]);
  assert.equal(outbox.hasRoom(full, 1), false);
  const [relieved] = run(outbox.step, full, [journaled(LIMITS.unackedChunksMax), welcome(0), ack(1)]);
  assert.equal(outbox.hasRoom(relieved, 1), true);
});

test("E8: 8 MiB may be unacknowledged, one byte more may not", () => {
  const [half] = run(outbox.step, empty, [{ kind: "submit", bytes: LIMITS.unackedBytesMax / 2 }]);
  assert.equal(outbox.hasRoom(half, LIMITS.unackedBytesMax / 2), true);
  assert.equal(outbox.hasRoom(half, LIMITS.unackedBytesMax / 2 + 1), false);
});

test("E8: acknowledged bytes make room again", () => {
  const [full] = run(outbox.step, empty, [{ kind: "submit", bytes: LIMITS.unackedBytesMax }]);
  assert.equal(outbox.hasRoom(full, 1), false);
  const [relieved] = run(outbox.step, full, [journaled(1), welcome(1)]);
  assert.equal(outbox.hasRoom(relieved, LIMITS.unackedBytesMax), true);
});

test("a driver that submits without room or journals what was not said is our own bug", () => {
  const takeover = outbox.init({ numbered: false, acked: 0, unackedBytes: [] });
  assert.throws(() => outbox.step(takeover, submit), AssertionFailed);
  assert.throws(() => outbox.step(empty, journaled(1)), AssertionFailed);
});
