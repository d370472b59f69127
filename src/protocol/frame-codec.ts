/**
 * Frames to bytes and back: the messages of `stream.proto`.
 *
 * Nothing from the wire is trusted: whatever is malformed, unknown or out of range becomes a
 * HoldfastError that says what is wrong, and never a frame. Bodies are views into the bytes that were
 * given, so a caller that reuses its buffers copies first.
 */
import { firstChars } from "./characters.ts";
import { given } from "./given.ts";
import {
  encoded,
  fieldsOf,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  type Schema,
} from "./message.ts";
import { enumName } from "./enum-name.ts";
import { errorCodeFromWire, errorCodeToWire, messageOf } from "./errors.ts";
import type { HoldfastError } from "./errors.ts";
import { checkFieldCount, FRAME_SHAPE } from "./field-count.ts";
import { checkClientFrame, checkServerFrame, checkSize, invalidFrame, parseEventId } from "./frame-check.ts";
import type {
  AttachFrame,
  ClientFrame,
  EndReason,
  ErrorFrame,
  EventFrame,
  ServerFrame,
  WelcomeFrame,
} from "./frames.ts";
import { DURABILITIES, ENDS, MODES, ROLES } from "./frame-names.ts";
import type {
  Attach,
  ServerChunk,
  StreamRequest,
  StreamResponse,
  WelcomeMessage,
} from "./gen/holdfast/v1/stream.ts";
import { StreamRequestSchema, StreamResponseSchema } from "./gen/holdfast/v1/stream.ts";
import { encodeEvent } from "./hot-frames.ts";
import { LIMITS } from "./limits.ts";
import { SharedEvent } from "./shared-event.ts";

export interface AddressedClientFrame {
  readonly frame: ClientFrame;
  /** Empty = the connection's. */
  readonly idempotencyKey: string;
}

export function encodeClientFrame(frame: ClientFrame, idempotencyKey: string): Uint8Array {
  checkClientFrame(frame, idempotencyKey);
  return encoded(StreamRequestSchema, { ...clientInit(frame), idempotencyKey });
}

function clientInit(frame: ClientFrame): MessageInitShape<typeof StreamRequestSchema> {
  switch (frame.kind) {
    case "chunk": {
      const { body, seqno, writerEpoch } = frame;
      return { request: { case: "clientChunk", value: body }, seqno, writerEpoch };
    }
    case "attach":
      return { request: { case: "attach", value: attachInit(frame) } };
    case "close":
      return { request: { case: "close", value: {} }, seqno: frame.seqno, writerEpoch: frame.writerEpoch };
    case "abort":
      return { request: { case: "abort", value: {} } };
    case "heartbeat":
      return { request: { case: "heartbeat", value: { runningExecIds: [...frame.runningExecIds] } } };
  }
}

function attachInit({ firstChunk, writerEpoch, ...frame }: AttachFrame) {
  return {
    ...frame,
    mode: MODES[frame.mode],
    role: ROLES[frame.role],
    eventId: String(frame.eventId),
    peek: frame.peek ?? false,
    ...given({ firstChunk, writerEpoch }),
  };
}

export function decodeClientFrame(bytes: Uint8Array): AddressedClientFrame {
  checkSize(bytes.byteLength, LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax, "the frame");
  checkFieldCount(bytes, FRAME_SHAPE);
  return clientFrameOf(parse(StreamRequestSchema, bytes));
}

/** For requests that were parsed as part of another message (AppendRequest). */
export function clientFrameOf(message: StreamRequest): AddressedClientFrame {
  const frame = readClientFrame(message);
  checkClientFrame(frame, message.idempotencyKey);
  return { frame, idempotencyKey: message.idempotencyKey };
}

function readClientFrame(message: StreamRequest): ClientFrame {
  const request = message.request;
  switch (request.case) {
    case "clientChunk":
      return { kind: "chunk", ...position(message, "a chunk"), body: request.value };
    case "close":
      return { kind: "close", ...position(message, "a close") };
    case "abort":
      return { kind: "abort" };
    case "heartbeat":
      return { kind: "heartbeat", runningExecIds: request.value.runningExecIds };
    case "attach":
      return readAttach(request.value);
    case undefined:
      throw unknownCase(message);
  }
}

/** Both must be present: reading an absent seqno as 0 would turn a mistake into a conflict. */
function position(message: StreamRequest, what: string): { seqno: number; writerEpoch: number } {
  const { seqno, writerEpoch } = message;
  if (seqno === undefined || writerEpoch === undefined) {
    throw invalidFrame(`${what} needs a seqno and a writer_epoch`);
  }
  return { seqno, writerEpoch };
}

function readAttach(attach: Attach): AttachFrame {
  return {
    kind: "attach",
    protocolVersion: attach.protocolVersion,
    mode: fromWire(MODES, attach.mode, "attach mode"),
    role: fromWire(ROLES, attach.role, "role"),
    eventId: parseEventId(attach.eventId, "event_id"),
    journalId: attach.journalId,
    fresh: attach.fresh,
    abort: attach.abort,
    firstChunk: attach.firstChunk,
    ...(attach.peek ? { peek: true } : {}),
    ...given({ writerEpoch: attach.writerEpoch }),
  };
}

export function encodeServerFrame(frame: ServerFrame): Uint8Array {
  if (frame instanceof SharedEvent) return frame.encoded;
  checkServerFrame(frame);
  if (frame.kind === "event") return encodeEventFrame(frame);
  return encoded(StreamResponseSchema, { response: serverInit(frame) });
}

/** Copies the body into the bytes that every reader will get: one copy for all of an event's life in memory. */
export function sharedEvent(eventId: number, body: Uint8Array, end: EndReason | undefined): SharedEvent {
  const frame: EventFrame = { kind: "event", eventId, body, end };
  checkServerFrame(frame);
  const encoded = encodeEventFrame(frame);
  // Only the end follows the body: a tag and a one-byte number.
  const bodyEnd = encoded.length - (end === undefined ? 0 : 2);
  return new SharedEvent(eventId, end, encoded, encoded.subarray(bodyEnd - body.length, bodyEnd));
}

function encodeEventFrame(frame: EventFrame): Uint8Array {
  const end = frame.end === undefined ? 0 : ENDS[frame.end];
  const eventId = frame.eventId === 0 ? "" : String(frame.eventId);
  return encodeEvent(eventId, frame.body, end);
}

type ResponseInit = NonNullable<MessageInitShape<typeof StreamResponseSchema>["response"]>;

function serverInit(frame: Exclude<ServerFrame, EventFrame>): ResponseInit {
  switch (frame.kind) {
    case "welcome":
      return { case: "welcomeMessage", value: welcomeInit(frame) };
    case "ack":
      return { case: "seqnoAck", value: frame.seqno };
    case "heartbeat":
      return { case: "heartbeat", value: { ...frame, eventHead: String(frame.eventHead) } };
    case "error":
      return { case: "error", value: errorInit(frame) };
    case "durability_lost":
      return { case: "durabilityLost", value: { head: String(frame.head) } };
  }
}

function welcomeInit(frame: WelcomeFrame) {
  return {
    ...frame,
    message: cut(frame.message),
    isDegradedMode: frame.degraded,
    eventHead: String(frame.eventHead),
    eventFloor: String(frame.eventFloor),
    durability: DURABILITIES[frame.durability],
    retentionLeftMs: BigInt(frame.retentionLeftMs),
    serverTimeMs: BigInt(frame.serverTimeMs),
    lastActivityMs: BigInt(frame.lastActivityMs),
    writerSinceEvent: String(frame.writerSinceEvent),
  };
}

/** An error as the wire has it, in a frame, an append's answer or a call's. */
export function errorInit({ code, message, retryAfterMs }: Omit<ErrorFrame, "kind">) {
  return { code: errorCodeToWire(code), message: cut(message), ...given({ retryAfterMs }) };
}

export function decodeServerFrame(bytes: Uint8Array): ServerFrame {
  checkSize(bytes.byteLength, LIMITS.eventBytesMax + LIMITS.frameOverheadBytesMax, "the frame");
  return serverFrameOf(parse(StreamResponseSchema, bytes));
}

/** For responses that were parsed as part of another message (ListenResponse). */
export function serverFrameOf(message: StreamResponse): ServerFrame {
  const frame = readServerFrame(message);
  checkServerFrame(frame);
  return frame;
}

function readServerFrame(message: StreamResponse): ServerFrame {
  const response = message.response;
  switch (response.case) {
    case "serverChunk":
      return readEvent(response.value);
    case "welcomeMessage":
      return readWelcome(response.value);
    case "seqnoAck":
      return { kind: "ack", seqno: response.value };
    case "heartbeat": {
      const { nextSeqno, eventHead, aborted } = response.value;
      return { kind: "heartbeat", nextSeqno, eventHead: parseEventId(eventHead, "event_head"), aborted };
    }
    case "error": {
      const { code, message: text, retryAfterMs } = response.value;
      return { kind: "error", code: errorCodeFromWire(code), message: text, retryAfterMs };
    }
    case "durabilityLost":
      return { kind: "durability_lost", head: parseEventId(response.value.head, "head") };
    case undefined:
      throw unknownCase(message);
  }
}

function readEvent(chunk: ServerChunk): EventFrame {
  const end: EndReason | undefined = chunk.end === 0 ? undefined : fromWire(ENDS, chunk.end, "end reason");
  return {
    kind: "event",
    eventId: chunk.eventId === "" ? 0 : parseNumberedEvent(chunk.eventId),
    body: chunk.message,
    end,
  };
}

/** "0" means "nothing yet", so no event carries it; one without an id has none at all. */
function parseNumberedEvent(text: string): number {
  const eventId = parseEventId(text, "event_id");
  if (eventId === 0) {
    throw invalidFrame('an event cannot have the id "0"');
  }
  return eventId;
}

function readWelcome(welcome: WelcomeMessage): WelcomeFrame {
  const { isDegradedMode: degraded, ...fields } = fieldsOf(welcome);
  return {
    ...fields,
    kind: "welcome",
    degraded,
    eventHead: parseEventId(welcome.eventHead, "event_head"),
    eventFloor: parseEventId(welcome.eventFloor, "event_floor"),
    writerSinceEvent: parseEventId(welcome.writerSinceEvent, "writer_since_event"),
    durability: fromWire(DURABILITIES, welcome.durability, "durability"),
    // Values beyond 2^53 lose digits here and are refused by the check that follows.
    retentionLeftMs: Number(welcome.retentionLeftMs),
    serverTimeMs: Number(welcome.serverTimeMs),
    lastActivityMs: Number(welcome.lastActivityMs),
  };
}

export function parse<Desc extends Schema>(schema: Desc, bytes: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw invalidFrame(`not a ${schema.typeName}: ${messageOf(cause)}`, cause);
  }
}

function fromWire<Name extends string>(
  table: Readonly<Record<Name, number>>,
  value: number,
  what: string,
): Name {
  const name = enumName(table, value);
  if (name === undefined) throw invalidFrame(`unknown ${what} ${value}`);
  return name;
}

function unknownCase(message: StreamRequest | StreamResponse): HoldfastError {
  const fields = (message.$unknown ?? []).map((field) => field.no);
  return fields.length === 0
    ? invalidFrame("the frame is empty")
    : invalidFrame(`unknown kind of frame: field ${fields.slice(0, 8).join(", ")}`);
}

function cut(text: string): string {
  return text.length <= LIMITS.messageCharsMax ? text : firstChars(text, LIMITS.messageCharsMax - 1, "…");
}
