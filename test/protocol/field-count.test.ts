import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeAppend,
  decodeClientFrame,
  encodeAppend,
  HoldfastError,
  LIMITS,
} from "../../src/protocol/index.ts";

/** One field after the other, none of them longer than its head. */
function fieldsOf(head: readonly number[], count: number): Uint8Array {
  const bytes = new Uint8Array(head.length * count);
  for (let at = 0; at < bytes.length; at += head.length) bytes.set(head, at);
  return bytes;
}

/** A field that holds a message. */
function within(field: number, message: Uint8Array): Uint8Array {
  const { length } = message;
  const head = [(field << 3) | 2, (length & 127) | 128, ((length >> 7) & 127) | 128, length >> 14];
  return Buffer.concat([Buffer.from(head), message]);
}

const HEARTBEAT = 8;
const FRAMES = 2;
const EMPTY_TEXT = [0x0a, 0];
const UNKNOWN = [0x78, 0];
const hasTooMany = (error: unknown): boolean =>
  error instanceof HoldfastError && error.code === "invalid_frame" && error.message.includes("fields");

test("E8: a frame of nothing but fields is refused before it is decoded", () => {
  for (const head of [EMPTY_TEXT, UNKNOWN, [(HEARTBEAT << 3) | 2, 0]]) {
    assert.throws(() => decodeClientFrame(fieldsOf(head, 5000)), hasTooMany);
  }
  assert.throws(() => decodeClientFrame(within(HEARTBEAT, fieldsOf(EMPTY_TEXT, 5000))), hasTooMany);
});

test("E8: an append of nothing but frames, or of frames of nothing but fields, is refused", () => {
  assert.throws(() => decodeAppend(fieldsOf([(FRAMES << 3) | 2, 0], 5000)), hasTooMany);
  const frame = within(FRAMES, within(HEARTBEAT, fieldsOf(EMPTY_TEXT, 2500)));
  assert.throws(() => decodeAppend(Buffer.concat([frame, frame])), hasTooMany);
});

test("E8: the largest append that is allowed has fewer fields than that", () => {
  const execIds = Array.from({ length: LIMITS.runningExecsMax }, (_, at) => `exec-${at}`);
  const body = new Uint8Array(LIMITS.unackedBytesMax / LIMITS.unackedChunksMax);
  const append = {
    idempotencyKey: "key",
    connectionTag: "tag",
    listener: "",
    detach: true,
    frames: [
      ...Array.from({ length: LIMITS.unackedChunksMax }, (_, seqno) => {
        return { kind: "chunk", seqno, writerEpoch: 1, body } as const;
      }),
      { kind: "abort" } as const,
      { kind: "heartbeat", runningExecIds: execIds } as const,
    ],
  };
  assert.equal(decodeAppend(encodeAppend(append)).frames.length, LIMITS.appendFramesMax);
});

test("what is no protobuf is still the decoder's to refuse", () => {
  assert.throws(() => decodeClientFrame(new Uint8Array(10_000).fill(255)), HoldfastError);
});
