/**
 * What the host of a stream makes of letters: frames of clients that are attached to other nodes.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Input, Said } from "../../src/core/hosted-stream.ts";
import { abort, after, attach, chunk, committed, end, hosted, macOf, stateAfter, tick } from "./host.ts";

const letter = (said: Said): Input => ({ kind: "letter", said, nowMs: 0 });

function asks(journalId: string, writerEpoch: number): Input {
  const input = attach(0, journalId);
  assert.ok(input.kind === "attach");
  return letter({ kind: "attach", frame: input.frame, writerEpoch });
}

function says(seqno: number, { writerEpoch = 1, content = seqno, isClose = false } = {}): Input {
  return letter({ kind: "chunk", seqno, writerEpoch, mac: macOf(content), bytes: 1, isClose });
}

test("A1: a chunk that comes by letter is accepted as any other, and once", () => {
  assert.deepEqual(after(hosted, says(0)), ["stage chunk 0", "commit"]);
  assert.deepEqual(after(hosted, says(0), committed()), ["1: ack 0"]);
  assert.deepEqual(after(hosted, says(0), committed(), says(0)), []);
  assert.deepEqual(after(hosted, chunk(1, 0), committed(), says(0, { content: 9 })), []);
  assert.deepEqual(after(hosted, says(1)), [], "a gap waits until the one before it came");
  assert.deepEqual(after(hosted, says(0, { isClose: true }), committed(), says(1)), []);
});

test("D1: a letter of a writer that is one no longer, or of an ended stream, changes nothing", () => {
  assert.deepEqual(after(hosted, says(0, { writerEpoch: 2 })), []);
  assert.deepEqual(after(hosted, end, committed(), says(0)), []);
});

test("D1, D2: a writer elsewhere begins the epoch that its node has drawn, and fences the one before when it is durable", () => {
  assert.deepEqual(after(hosted, asks("phone", 40)), ["tell_takeover", "commit"]);
  assert.deepEqual(after(hosted, asks("phone", 40), committed()), ["1: fenced", "1: disconnect"]);
  assert.equal(stateAfter(hosted, asks("phone", 40), committed()).durable.writerEpoch, 40);
  assert.deepEqual(after(hosted, asks("phone", 40), committed(), asks("phone", 40)), []);
  assert.deepEqual(after(hosted, asks("phone", 1)), [], "an epoch that is over does not begin");
  assert.deepEqual(after(hosted, asks("laptop", 40)), [], "who is the writer needs no epoch");
});

test("D7: a writer that asks by letters counts as activity for half the retention time; a reader does not", () => {
  const { retentionMs } = hosted.options.retention;
  const left = stateAfter(hosted, { kind: "closed", connection: 1 }, tick(1));
  assert.deepEqual(after(left, tick(retentionMs / 3)), []);
  const asked = stateAfter(left, asks("laptop", 1));
  assert.deepEqual(after(asked, tick(retentionMs / 3)), ["commit"]);
  assert.deepEqual(after(asked, tick(retentionMs / 2)), [], "it has not asked since");
  const read = attach(0, "phone", { role: "reader" });
  assert.ok(read.kind === "attach");
  const reader = stateAfter(left, letter({ kind: "attach", frame: read.frame, writerEpoch: 0 }));
  assert.deepEqual(after(reader, tick(retentionMs / 3)), []);
});

test("D3: an abort by letter is recorded as any other", () => {
  assert.deepEqual(after(hosted, letter({ kind: "abort" })), after(hosted, abort(1)));
});
