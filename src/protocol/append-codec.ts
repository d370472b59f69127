/**
 * The unary call of the split transport: several client frames in one request, and its answer.
 */
import { given } from "./given.ts";
import { encoded } from "./message.ts";
import { HoldfastError, errorCodeFromWire } from "./errors.ts";
import { APPEND_SHAPE, checkFieldCount } from "./field-count.ts";
import { checkName, checkSize, uint32, invalidFrame } from "./frame-check.ts";
import { clientFrameOf, encodeClientFrame, errorInit, parse } from "./frame-codec.ts";
import type { ClientFrame } from "./frames.ts";
import { AppendRequestSchema, AppendResponseSchema } from "./gen/holdfast/v1/stream.ts";
import { LIMITS } from "./limits.ts";
import { LENGTH_DELIMITED, VARINT, WireWriter } from "./wire.ts";

/** All that may wait for its ack, and the heads of that many frames. */
export const APPEND_BYTES_MAX = LIMITS.unackedBytesMax + LIMITS.frameOverheadBytesMax;

export interface Append {
  readonly idempotencyKey: string;
  /** Anything but an attach; with a listener, an attach and then anything else. */
  readonly frames: readonly ClientFrame[];
  /** Ties the append to its connection, for routing and logs; never an identity. */
  readonly connectionTag: string;
  /** Begins a connection whose frames come through this listener; empty = continues one. */
  readonly listener: string;
  /** Ends the connection after these frames. */
  readonly detach: boolean;
}

export function encodeAppend(append: Append): Uint8Array {
  checkAppend(append);
  const writer = new WireWriter();
  writer.varint(lengthDelimited(1)).string(append.idempotencyKey);
  for (const frame of append.frames) {
    // Only these must name their stream again; the others mean the append's.
    const isNamed = frame.kind === "abort" || frame.kind === "attach";
    const frameKey = isNamed ? append.idempotencyKey : "";
    writer.varint(lengthDelimited(2)).bytes(encodeClientFrame(frame, frameKey));
  }
  if (append.connectionTag !== "") {
    writer.varint(lengthDelimited(3)).string(append.connectionTag);
  }
  if (append.listener !== "") {
    writer.varint(lengthDelimited(4)).string(append.listener);
  }
  if (append.detach) {
    writer.varint((5 << 3) | VARINT).varint(1);
  }
  return writer.finish();
}

function lengthDelimited(field: number): number {
  return (field << 3) | LENGTH_DELIMITED;
}

export function decodeAppend(bytes: Uint8Array): Append {
  checkSize(bytes.byteLength, APPEND_BYTES_MAX, "the append");
  checkFieldCount(bytes, APPEND_SHAPE);
  const { idempotencyKey, frames, connectionTag, listener, detach } = parse(AppendRequestSchema, bytes);
  const append = {
    idempotencyKey,
    connectionTag,
    listener,
    detach,
    frames: frames.map((frame) => ownFrame(frame, idempotencyKey)),
  };
  checkAppend(append);
  return append;
}

function ownFrame(message: Parameters<typeof clientFrameOf>[0], streamName: string): ClientFrame {
  const { frame, idempotencyKey } = clientFrameOf(message);
  if (idempotencyKey !== "" && idempotencyKey !== streamName) {
    throw invalidFrame("a frame of an append names another stream");
  }
  return frame;
}

function checkAppend(append: Append): void {
  checkName(append.idempotencyKey, LIMITS.idempotencyKeyBytesMax, "idempotency_key", true);
  checkName(append.connectionTag, LIMITS.journalIdBytesMax, "connection_tag", false);
  if (append.frames.length > LIMITS.appendFramesMax) {
    throw invalidFrame(
      `an append has ${append.frames.length} frames, at most ${LIMITS.appendFramesMax} are allowed`,
    );
  }
  const isJoining = append.listener !== "";
  checkName(append.listener, LIMITS.journalIdBytesMax, "listener", false);
  if (isJoining) {
    checkName(append.connectionTag, LIMITS.journalIdBytesMax, "connection_tag", true);
    if (append.frames[0]?.kind !== "attach") {
      throw invalidFrame("an append that names a listener begins with an attach");
    }
  }
  if (append.frames.some((frame, at) => frame.kind === "attach" && !(isJoining && at === 0))) {
    throw invalidFrame("an attach cannot be appended, except as the first frame with a listener");
  }
}

/** How an append went: where the durable log stood, or why nothing was taken over. */
export type AppendOutcome = { readonly nextSeqno: number | undefined } | { readonly error: HoldfastError };

export function encodeAppendOutcome(outcome: AppendOutcome): Uint8Array {
  if ("error" in outcome) return encoded(AppendResponseSchema, { error: errorInit(outcome.error) });
  const { nextSeqno } = outcome;
  if (nextSeqno !== undefined) uint32(nextSeqno, "next_seqno");
  return encoded(AppendResponseSchema, given({ nextSeqno }));
}

export function decodeAppendOutcome(bytes: Uint8Array): AppendOutcome {
  const { error, nextSeqno } = parse(AppendResponseSchema, bytes);
  if (error === undefined) {
    return { nextSeqno };
  }
  const { retryAfterMs } = error;
  return { error: new HoldfastError(errorCodeFromWire(error.code), error.message, { retryAfterMs }) };
}
