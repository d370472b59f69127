/**
 * Whether a connection may attach, and as what.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { admit, findStream, type Found } from "../../src/core/attach.ts";
import { newStreamState, type StreamState, type Writer } from "../../src/core/stream-state.ts";
import type { AttachFrame } from "../../src/protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../../src/protocol/limits.ts";

const open: AttachFrame = {
  kind: "attach",
  protocolVersion: PROTOCOL_VERSION,
  mode: "open",
  role: "writer",
  eventId: 0,
  journalId: "laptop",
  fresh: false,
  abort: false,
  firstChunk: undefined,
};
const resume: AttachFrame = { ...open, mode: "resume" };
const reader: AttachFrame = { ...resume, role: "reader" };

const absent: Found = { kind: "absent" };
const live: Found = { kind: "live", keyMatches: true };
const wrongKey: Found = { kind: "live", keyMatches: false };
const storeDown: Found = { kind: "store_down" };

function find(attach: AttachFrame, found: Found, openStreams = 0): string {
  const finding = findStream(attach, found, openStreams);
  return finding.kind === "refuse" ? finding.code : finding.kind;
}

test("D4: open makes an absent stream and attaches to one that is there", () => {
  assert.equal(find(open, absent), "create");
  assert.equal(find(open, live), "go_on");
});

test("D4, E1, E2: resuming an absent, foreign or wrongly keyed stream is one and the same answer", () => {
  const answers = [absent, wrongKey, { kind: "gone", keyMatches: false } as const].map((found) =>
    findStream(resume, found, 0),
  );
  assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
  assert.equal(find(resume, absent), "not_found");
});

test("D4: opening with another stream key is refused, whether the stream lives or is gone", () => {
  assert.equal(find(open, wrongKey), "not_found");
  assert.equal(find(open, { kind: "gone", keyMatches: false }), "not_found");
});

test("A7: a stream that is gone is never opened anew by mistake", () => {
  assert.equal(find(open, { kind: "gone", keyMatches: true }), "stream_gone");
  assert.equal(find({ ...open, fresh: true }, { kind: "gone", keyMatches: true }), "stream_gone");
});

test("D5: only a stream that is surely new may open while the store is down; any other waits", () => {
  assert.equal(find({ ...open, fresh: true }, storeDown), "degrade");
  assert.equal(find(open, storeDown), "unavailable");
  assert.equal(find(resume, storeDown), "unavailable");
  assert.equal(find({ ...resume, fresh: true }, storeDown), "unavailable");
  assert.equal(find({ ...open, role: "reader", fresh: true }, storeDown), "unavailable");
});

test("D2: a reader makes no stream", () => {
  assert.equal(find({ ...open, role: "reader" }, absent), "not_found");
  assert.equal(find({ ...open, role: "reader" }, absent, LIMITS.openStreamsPerPrincipalMax), "not_found");
  assert.equal(find(reader, live), "go_on");
});

test("E8: a principal may have 100 open streams, the 101st is refused, the existing ones go on", () => {
  assert.equal(find(open, absent, LIMITS.openStreamsPerPrincipalMax - 1), "create");
  assert.equal(find(open, absent, LIMITS.openStreamsPerPrincipalMax), "overloaded");
  assert.equal(find(resume, live, LIMITS.openStreamsPerPrincipalMax), "go_on");
});

test("another protocol version is refused before anything else is looked at", () => {
  assert.equal(find({ ...open, protocolVersion: PROTOCOL_VERSION + 1 }, wrongKey), "unsupported_version");
});

const writer = (journalId: string): Writer => ({ journalId, sinceSeqno: 0, sinceEvent: 0 });
const stream: StreamState = {
  ...newStreamState(Uint8Array.of(1), 0, 1),
  nextSeqno: 4,
  eventHead: 9,
  eventFloor: 3,
  writers: [writer("laptop")],
  writerEpoch: 1,
};

function admitted(attach: AttachFrame, staged = stream, durable = staged, readers = 0): string {
  const admission = admit(attach, staged, durable, readers);
  return admission.kind === "refuse" ? admission.code : admission.kind;
}

const at = (eventId: number): AttachFrame => ({ ...resume, eventId });

test("B5: a client may stand anywhere from just below the floor to the durable head, never elsewhere", () => {
  assert.equal(admitted(at(2)), "join");
  assert.equal(admitted(at(9)), "join");
  assert.equal(admitted(at(1)), "events_gone");
  assert.equal(admitted(at(10)), "event_ahead");
});

test("B2: an event that is staged and not durable cannot have been seen", () => {
  assert.equal(admitted(at(9), stream, { ...stream, eventHead: 8 }), "event_ahead");
});

test("D1: the newest writer comes back without changing anything", () => {
  assert.deepEqual(admit(at(5), stream, stream, 0), { kind: "join" });
});

test("D2: the first writer is no takeover", () => {
  const unwritten = { ...stream, writers: [] };
  const admission = admit(at(5), unwritten, unwritten, 0);
  assert.equal(admission.kind === "new_writer" && admission.isTakeover, false);
});

test("D2: another journal takes over from where both logs stand", () => {
  assert.deepEqual(admit({ ...at(5), journalId: "phone" }, stream, stream, 0), {
    kind: "new_writer",
    isTakeover: true,
    writers: [writer("laptop"), { journalId: "phone", sinceSeqno: 4, sinceEvent: 9 }],
  });
});

test("D1: a journal that was taken over from is fenced for good", () => {
  const taken = { ...stream, writers: [writer("laptop"), writer("phone")] };
  assert.equal(admitted(at(5), taken), "fenced");
  assert.equal(admitted({ ...at(5), role: "reader" }, taken), "join");
});

test("D1: a takeover that is not durable yet fences nobody, it only asks to come back", () => {
  const staged = { ...stream, writers: [writer("laptop"), writer("phone")], writerEpoch: 2 };
  assert.equal(admitted(at(5), staged, stream), "unavailable");
});

test("D1: a writer without a journal begins an epoch, stays the same writer, and is fenced behind a later one", () => {
  const again = { ...at(5), writerEpoch: 0 };
  const { writers } = stream;
  assert.deepEqual(admit(again, stream, stream, 0), { kind: "new_writer", writers, isTakeover: false });
  const later = { ...stream, writerEpoch: 2 };
  assert.equal(admitted({ ...again, writerEpoch: 2 }, later), "join");
  assert.equal(admitted({ ...again, writerEpoch: 1 }, later), "fenced");
  assert.equal(admitted({ ...again, writerEpoch: 1 }, later, stream), "unavailable");
});

test("B5: a floor that is not durable yet refuses nobody", () => {
  assert.equal(admitted(at(2), { ...stream, eventFloor: 8 }, stream), "join");
});

test("D2: a reader with any journal takes nothing over", () => {
  assert.equal(admitted({ ...at(5), role: "reader", journalId: "phone" }), "join");
});

test("E8: 16 readers may be attached, the 17th is refused, the writer never", () => {
  assert.equal(admitted({ ...reader, eventId: 5 }, stream, stream, LIMITS.readersPerStreamMax - 1), "join");
  assert.equal(admitted({ ...reader, eventId: 5 }, stream, stream, LIMITS.readersPerStreamMax), "overloaded");
  assert.equal(admitted(at(5), stream, stream, LIMITS.readersPerStreamMax), "join");
});

test("E8: two devices that fight over a stream end at 256 takeovers", () => {
  const writers = Array.from({ length: LIMITS.writersPerStreamMax - 1 }, (_, index) =>
    writer(`w${String(index)}`),
  );
  const phone = { ...at(5), journalId: "phone" };
  assert.equal(admitted(phone, { ...stream, writers }), "new_writer");
  assert.equal(admitted(phone, { ...stream, writers: [...writers, writer("one more")] }), "overloaded");
});
