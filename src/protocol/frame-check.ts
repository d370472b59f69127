/**
 * What makes a frame valid, apart from how it is written.
 *
 * The same check runs before a frame is encoded and after one is decoded, so what we send is what we
 * would accept, and the machines behind it never see a number that is not one (E8).
 */
import { HoldfastError } from "./errors.ts";
import type { AttachFrame, ClientFrame, EventFrame, ServerFrame, WelcomeFrame } from "./frames.ts";
import { LIMITS } from "./limits.ts";

const UINT32_MAX = 0xffff_ffff;
const CANONICAL_DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;
/** Names travel in HTTP headers and logs, so they are visible ASCII; bytes and characters are then the same. */
const VISIBLE_ASCII = /^[\x21-\x7e]*$/;

export function invalidFrame(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError("invalid_frame", message, { cause });
}

/** Reads an event id. One spelling per number, so that ids may be compared as text anywhere. */
export function parseEventId(text: string, what: string): number {
  const value = CANONICAL_DECIMAL.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) {
    // The text may be as long as the sender likes; the message is not.
    throw invalidFrame(`${what} is not a canonical decimal number: ${JSON.stringify(text.slice(0, 32))}`);
  }
  return value;
}

export function checkUint32(value: number, what: string): void {
  if (!Number.isInteger(value) || value < 0 || value > UINT32_MAX) {
    throw invalidFrame(`${what} is not an unsigned 32-bit integer: ${value}`);
  }
}

function checkSafeInteger(value: number, what: string): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalidFrame(`${what} is not a safe non-negative integer: ${value}`);
  }
}

/** `required` is for names without which the frame means nothing. */
export function checkName(text: string, bytesMax: number, what: string, required: boolean): void {
  const objection = nameObjection(text, bytesMax, what, required);
  if (objection !== undefined) throw invalidFrame(objection);
}

/** Why a text cannot be a name; undefined when it can. */
export function nameObjection(
  text: string,
  bytesMax: number,
  what: string,
  required: boolean,
): string | undefined {
  if (required && text === "") return `${what} is empty`;
  if (text.length > bytesMax) {
    return `${what} has ${text.length} characters, at most ${bytesMax} are allowed`;
  }
  return VISIBLE_ASCII.test(text) ? undefined : `${what} holds something other than visible ASCII`;
}

export function checkSize(byteCount: number, bytesMax: number, what: string): void {
  if (byteCount > bytesMax) {
    throw new HoldfastError("too_large", `${what} has ${byteCount} bytes, at most ${bytesMax} are allowed`);
  }
}

function checkAttach(frame: AttachFrame): void {
  checkUint32(frame.protocolVersion, "protocol_version");
  checkSafeInteger(frame.eventId, "event_id");
  checkName(frame.journalId, LIMITS.journalIdBytesMax, "journal_id", frame.role === "writer");
  if (frame.fresh && (frame.mode !== "open" || frame.role !== "writer" || frame.eventId !== 0)) {
    throw invalidFrame("only a writer that opens a stream and has no event may say that it is fresh");
  }
  if (frame.peek === true && frame.role !== "reader") throw invalidFrame("only a reader may peek");
  if (frame.writerEpoch !== undefined) {
    checkUint32(frame.writerEpoch, "writer_epoch");
    if (frame.role !== "writer") throw invalidFrame("only a writer has a writer_epoch");
  }
  if (frame.firstChunk !== undefined) {
    // A5: only for a fresh idempotency key may a chunk leave before the journal has it.
    if (!frame.fresh) {
      throw invalidFrame("first_chunk is only allowed on a fresh attach");
    }
    checkSize(frame.firstChunk.byteLength, LIMITS.chunkBytesMax, "first_chunk");
  }
}

export function checkClientFrame(frame: ClientFrame, idempotencyKey: string): void {
  // An abort names the stream it means, so that a late one never hits a later turn (D3).
  const named = frame.kind === "attach" || frame.kind === "abort";
  checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, "idempotency_key", named);
  switch (frame.kind) {
    case "attach":
      checkAttach(frame);
      return;
    case "chunk":
      checkUint32(frame.seqno, "seqno");
      checkUint32(frame.writerEpoch, "writer_epoch");
      checkSize(frame.body.byteLength, LIMITS.chunkBytesMax, "client_chunk");
      return;
    case "close":
      checkUint32(frame.seqno, "seqno");
      checkUint32(frame.writerEpoch, "writer_epoch");
      return;
    case "abort":
      return;
    case "heartbeat":
      if (frame.runningExecIds.length > LIMITS.runningExecsMax) {
        throw invalidFrame(
          `a heartbeat names ${frame.runningExecIds.length} execs, at most ${LIMITS.runningExecsMax} are allowed`,
        );
      }
      for (const execId of frame.runningExecIds) {
        checkName(execId, LIMITS.execIdBytesMax, "a running exec id", true);
      }
      return;
  }
}

function checkWelcome(frame: WelcomeFrame): void {
  checkUint32(frame.nextSeqno, "next_seqno");
  checkSafeInteger(frame.eventHead, "event_head");
  checkSafeInteger(frame.eventFloor, "event_floor");
  checkUint32(frame.writerEpoch, "writer_epoch");
  checkSafeInteger(frame.writerSinceEvent, "writer_since_event");
  checkSafeInteger(frame.retentionLeftMs, "retention_left_ms");
  checkUint32(frame.heartbeatIntervalMs, "heartbeat_interval_ms");
  checkSafeInteger(frame.serverTimeMs, "server_time_ms");
  checkSafeInteger(frame.lastActivityMs, "last_activity_ms");
  checkUint32(frame.protocolVersion, "protocol_version");
}

function checkEvent(frame: EventFrame): void {
  checkSafeInteger(frame.eventId, "event_id");
  checkSize(frame.body.byteLength, LIMITS.eventBytesMax, "message");
}

export function checkServerFrame(frame: ServerFrame): void {
  switch (frame.kind) {
    case "welcome":
      checkWelcome(frame);
      return;
    case "event":
      checkEvent(frame);
      return;
    case "ack":
      checkUint32(frame.seqno, "seqno_ack");
      return;
    case "heartbeat":
      checkUint32(frame.nextSeqno, "next_seqno");
      checkSafeInteger(frame.eventHead, "event_head");
      return;
    case "error":
      if (frame.retryAfterMs !== undefined) {
        checkUint32(frame.retryAfterMs, "retry_after_ms");
      }
      return;
    case "durability_lost":
      checkSafeInteger(frame.head, "head");
      return;
  }
}
