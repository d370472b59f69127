import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import { decodeAppend, encodeAppend } from "../../src/protocol/append-codec.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import {
  decodeClientFrame,
  decodeServerFrame,
  encodeClientFrame,
  encodeServerFrame,
} from "../../src/protocol/frame-codec.ts";
import type { ClientFrame } from "../../src/protocol/frames.ts";
import { StreamRequestSchema, StreamResponseSchema } from "../../src/protocol/gen/holdfast/v1/stream.ts";
import { LIMITS, PROTOCOL_VERSION } from "../../src/protocol/limits.ts";

const fails = (code: ErrorCode) => (error: unknown) => error instanceof HoldfastError && error.code === code;

const chunk = (size: number): ClientFrame => ({
  kind: "chunk",
  seqno: 0,
  writerEpoch: 1,
  body: new Uint8Array(size),
});

test("E8: the limits are the ones that were agreed", () => {
  assert.equal(PROTOCOL_VERSION, 1);
  assert.deepEqual(
    { ...LIMITS },
    {
      chunkBytesMax: 1_048_576,
      eventBytesMax: 262_144,
      blobBytesMax: 67_108_864,
      unackedChunksMax: 256,
      unackedBytesMax: 8_388_608,
      sendQueueBytesMax: 4_194_304,
      readersPerStreamMax: 16,
      openStreamsPerPrincipalMax: 100,
      jsonDepthMax: 64,
      bodyBytesMax: 33_554_432,
      inlineBytesMax: 65_536,
      idempotencyKeyBytesMax: 128,
      journalIdBytesMax: 64,
      execIdBytesMax: 64,
      runningExecsMax: 256,
      frameOverheadBytesMax: 65_536,
      messageCharsMax: 1000,
      appendFramesMax: 258,
      writersPerStreamMax: 256,
      subagentDepthMax: 10,
    },
  );
});

test("E8: a chunk at the limit passes, one byte more is too large in both directions", () => {
  const atLimit = encodeClientFrame(chunk(LIMITS.chunkBytesMax), "key");
  assert.equal(decodeClientFrame(atLimit).frame.kind, "chunk");
  assert.throws(() => encodeClientFrame(chunk(LIMITS.chunkBytesMax + 1), "key"), fails("too_large"));
  const above = create(StreamRequestSchema, {
    request: { case: "clientChunk", value: new Uint8Array(LIMITS.chunkBytesMax + 1) },
    seqno: 0,
    writerEpoch: 1,
  });
  assert.throws(() => decodeClientFrame(toBinary(StreamRequestSchema, above)), fails("too_large"));
});

test("E8: a first chunk at the limit passes, one byte more is too large", () => {
  const attach = (size: number): ClientFrame => ({
    kind: "attach",
    protocolVersion: 1,
    mode: "open",
    role: "writer",
    eventId: 0,
    journalId: "j",
    fresh: true,
    abort: false,
    firstChunk: new Uint8Array(size),
  });
  assert.equal(
    decodeClientFrame(encodeClientFrame(attach(LIMITS.chunkBytesMax), "key")).frame.kind,
    "attach",
  );
  assert.throws(() => encodeClientFrame(attach(LIMITS.chunkBytesMax + 1), "key"), fails("too_large"));
});

test("E8: an event at the limit passes, one byte more is too large in both directions", () => {
  const event = (size: number) =>
    ({ kind: "event", eventId: 1, body: new Uint8Array(size), end: undefined }) as const;
  assert.equal(decodeServerFrame(encodeServerFrame(event(LIMITS.eventBytesMax))).kind, "event");
  assert.throws(() => encodeServerFrame(event(LIMITS.eventBytesMax + 1)), fails("too_large"));
  const above = create(StreamResponseSchema, {
    response: {
      case: "serverChunk",
      value: { eventId: "1", message: new Uint8Array(LIMITS.eventBytesMax + 1) },
    },
  });
  assert.throws(() => decodeServerFrame(toBinary(StreamResponseSchema, above)), fails("too_large"));
});

test("E8: a frame that is mostly something else than its body is too large before it is parsed", () => {
  // An unknown field 9 with bytes: at the limit the frame is parsed and refused for what it is.
  const padded = (size: number) => {
    const bytes = new Uint8Array(size);
    const rest = size - 5;
    bytes.set([
      0x4a,
      (rest & 0x7f) | 0x80,
      ((rest >> 7) & 0x7f) | 0x80,
      ((rest >> 14) & 0x7f) | 0x80,
      rest >> 21,
    ]);
    return bytes;
  };
  const clientMax = LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax;
  assert.throws(() => decodeClientFrame(padded(clientMax)), fails("invalid_frame"));
  assert.throws(() => decodeClientFrame(padded(clientMax + 1)), fails("too_large"));
  const serverMax = LIMITS.eventBytesMax + LIMITS.frameOverheadBytesMax;
  assert.throws(() => decodeServerFrame(padded(serverMax)), fails("invalid_frame"));
  assert.throws(() => decodeServerFrame(padded(serverMax + 1)), fails("too_large"));
});

test("E8: names at the limit pass, one character more is refused", () => {
  const passes = (frame: ClientFrame, key: string) => decodeClientFrame(encodeClientFrame(frame, key));
  const attach = (journalId: string): ClientFrame => ({
    kind: "attach",
    protocolVersion: 1,
    mode: "resume",
    role: "writer",
    eventId: 0,
    journalId,
    fresh: false,
    abort: false,
    firstChunk: undefined,
  });
  const beat = (execId: string): ClientFrame => ({ kind: "heartbeat", runningExecIds: [execId] });

  passes({ kind: "abort" }, "k".repeat(LIMITS.idempotencyKeyBytesMax));
  assert.throws(
    () => passes({ kind: "abort" }, "k".repeat(LIMITS.idempotencyKeyBytesMax + 1)),
    fails("invalid_frame"),
  );
  passes(attach("j".repeat(LIMITS.journalIdBytesMax)), "key");
  assert.throws(
    () => passes(attach("j".repeat(LIMITS.journalIdBytesMax + 1)), "key"),
    fails("invalid_frame"),
  );
  passes(beat("e".repeat(LIMITS.execIdBytesMax)), "key");
  assert.throws(() => passes(beat("e".repeat(LIMITS.execIdBytesMax + 1)), "key"), fails("invalid_frame"));
  assert.throws(() => passes(beat(""), "key"), fails("invalid_frame"));
});

test("names that an HTTP header or a log could not carry are refused", () => {
  for (const key of ["a b", "a\nb", "ä", "\u0000", "\u007f"]) {
    assert.throws(
      () => encodeClientFrame({ kind: "abort" }, key),
      fails("invalid_frame"),
      JSON.stringify(key),
    );
  }
});

test("E8: a heartbeat names as many execs as allowed and not one more", () => {
  const beat = (count: number): ClientFrame => ({
    kind: "heartbeat",
    runningExecIds: Array.from({ length: count }, (_, i) =>
      `e${String(i)}`.padEnd(LIMITS.execIdBytesMax, "x"),
    ),
  });
  const { frame } = decodeClientFrame(encodeClientFrame(beat(LIMITS.runningExecsMax), "key"));
  assert.equal(frame.kind === "heartbeat" && frame.runningExecIds.length, LIMITS.runningExecsMax);
  assert.throws(() => encodeClientFrame(beat(LIMITS.runningExecsMax + 1), "key"), fails("invalid_frame"));
});

test("E8: an append holds everything that may be unacked, and not one frame more", () => {
  const append = (count: number, size: number) => ({
    idempotencyKey: "key",
    connectionTag: "",
    listener: "",
    detach: false,
    frames: Array.from({ length: count }, () => chunk(size)),
  });
  const largest = append(LIMITS.unackedChunksMax, LIMITS.unackedBytesMax / LIMITS.unackedChunksMax);
  assert.equal(decodeAppend(encodeAppend(largest)).frames.length, LIMITS.unackedChunksMax);
  assert.equal(encodeAppend(append(LIMITS.appendFramesMax, 0)).byteLength > 0, true);
  assert.throws(() => encodeAppend(append(LIMITS.appendFramesMax + 1, 0)), fails("invalid_frame"));
  const sizeMax = LIMITS.unackedBytesMax + LIMITS.frameOverheadBytesMax;
  assert.throws(() => decodeAppend(new Uint8Array(sizeMax + 1)), fails("too_large"));
});
