/**
 * What the headers of a call say, checked before anything of its body is read.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { checkName, invalidFrame, parseEventId } from "../../protocol/frame-check.ts";
import type { AttachFrame } from "../../protocol/frames.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AcceptedMeta, Caller } from "../transport.ts";
import { decodeBase64 } from "../connect/base64.ts";
import { CONNECT_PROTOCOL_VERSION, HEADERS } from "../connect/calls.ts";
import { type CallKind, type Format, formatOf } from "../connect/formats.ts";
import type { Exchange } from "./exchange.ts";

/** Of stream keys and conversation keys. */
const KEY_BYTES = 32;

/** A refusal whose status says more than that of its code. */
export class HeadRefusal {
  readonly error: HoldfastError;
  readonly status: number;

  constructor(status: number, message: string) {
    this.error = new HoldfastError("invalid_frame", message);
    this.status = status;
  }
}

/** How the call is written, or why it is none. */
export function readFormat(exchange: Exchange, kind: CallKind): Format | HeadRefusal {
  if (exchange.method !== "POST") return new HeadRefusal(405, "a call is a POST");
  const format = formatOf(exchange.header("content-type"), kind);
  if (format === undefined) {
    const wanted = kind === "stream" ? "application/connect+proto or +json" : "application/proto or /json";
    return new HeadRefusal(415, `the content-type of this call is ${wanted}`);
  }
  const version = exchange.header(HEADERS.protocolVersion);
  if (version !== undefined && version !== CONNECT_PROTOCOL_VERSION) {
    return new HeadRefusal(400, `connect-protocol-version is ${CONNECT_PROTOCOL_VERSION}`);
  }
  const encoding = exchange.header(kind === "stream" ? "connect-content-encoding" : "content-encoding");
  if (encoding !== undefined && encoding !== "identity") {
    return new HeadRefusal(415, "compressed requests are not supported; send them as they are");
  }
  return format;
}

/** The stream that a call means. */
export function readMeta(exchange: Exchange, caller: Caller): AcceptedMeta {
  const idempotencyKey = exchange.header(HEADERS.idempotencyKey) ?? "";
  checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, `the header ${HEADERS.idempotencyKey}`, true);
  const streamKey = readKey(exchange, HEADERS.streamKey);
  const meta = { ...caller, idempotencyKey, streamKey };
  if (exchange.header(HEADERS.conversationKey) === undefined) return meta;
  const keep = exchange.header(HEADERS.conversationKeep) ?? "";
  const isTime = /^[1-9]\d{0,9}$/.test(keep);
  if (!isTime) throw invalidFrame(`the header ${HEADERS.conversationKeep} must be a number of seconds`);
  const key = readKey(exchange, HEADERS.conversationKey);
  return { ...meta, conversation: { key, keepMs: Number(keep) * 1_000 } };
}

function readKey(exchange: Exchange, header: string): Uint8Array {
  const key = decodeBase64(exchange.header(header) ?? "");
  // What was sent instead may be a key with a typo: it is not repeated (E4).
  if (key?.length !== KEY_BYTES)
    throw invalidFrame(`the header ${header} must be ${KEY_BYTES} bytes in base64url`);
  return key;
}

/** The header may be left out, but two cursors would be one too many. */
export function checkEventId(exchange: Exchange, attach: AttachFrame): void {
  const text = exchange.header(HEADERS.eventId);
  if (text === undefined) return;
  if (parseEventId(text, `the header ${HEADERS.eventId}`) !== attach.eventId) {
    throw invalidFrame(`the header ${HEADERS.eventId} and the attach name different events`);
  }
}

/** The same for the stream's name: empty means the connection's. */
export function checkAddress(meta: AcceptedMeta, idempotencyKey: string): void {
  if (idempotencyKey !== "" && idempotencyKey !== meta.idempotencyKey) {
    throw invalidFrame("a frame names another stream than the connection");
  }
}

export function readTag(exchange: Exchange): string {
  const tag = exchange.header(HEADERS.connectionTag) ?? "";
  checkName(tag, LIMITS.journalIdBytesMax, `the header ${HEADERS.connectionTag}`, false);
  return tag;
}

/** What a client gets for `cause`: an error of ours, or only that there was a bug. */
export function asRefusal(cause: unknown, onBug: (bug: unknown) => void): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  onBug(cause);
  return new HoldfastError("internal", "the server failed; try again", { retryAfterMs: 1000 });
}
