/**
 * The closed set of errors, and what a client does about each.
 *
 * A code is the only thing that a program branches on; a message is for people. Each code has exactly one
 * remedy, so a client never has to guess whether trying again is safe. Wire codes are the enum of
 * `errors.proto`; the functions at the end are the only place where the two meet. Local codes are for
 * mistakes of a caller within one process, and never travel.
 */
import { ErrorCode as WireErrorCode } from "./gen/holdfast/v1/errors_pb.ts";

/** What one side can tell the other. */
export type WireCode =
  | "invalid_frame"
  | "too_large"
  | "not_found"
  | "stream_ended"
  | "stream_failed"
  | "seqno_conflict"
  | "fenced"
  | "unsupported_version"
  | "seqno_gap"
  | "event_gap"
  | "connection_lost"
  | "stream_gone"
  | "events_gone"
  | "event_ahead"
  | "overloaded"
  | "unavailable"
  | "internal"
  | "unauthenticated";

/**
 * What only a caller in the same process can have done wrong.
 *
 * - `invalid_argument`: an option, a flag, a field of a file or an argument is not what it has to be.
 * - `already_exists`: the name is taken here.
 * - `busy`: another turn, process or tab is at it; the same call can succeed when that one is done.
 */
export type LocalCode = "invalid_argument" | "already_exists" | "busy";

export type ErrorCode = WireCode | LocalCode;

/**
 * - `stop`: trying again cannot help; tell the user.
 * - `reconnect`: the stream is fine, this connection is not; attach again from the journal.
 * - `restart`: the stream is gone; open a new one from the checkpoint and the journaled outcomes.
 * - `retry`: it cannot be done now; the same again later, after `retryAfterMs` when it is given.
 * - `ask`: the credentials callback is asked once, then stop.
 */
export type Remedy = "stop" | "reconnect" | "restart" | "retry" | "ask";

export const REMEDY_OF: Readonly<Record<ErrorCode, Remedy>> = Object.freeze({
  invalid_frame: "stop",
  too_large: "stop",
  not_found: "stop",
  stream_ended: "stop",
  stream_failed: "stop",
  seqno_conflict: "stop",
  fenced: "stop",
  unsupported_version: "stop",
  seqno_gap: "reconnect",
  event_gap: "reconnect",
  connection_lost: "reconnect",
  stream_gone: "restart",
  events_gone: "restart",
  event_ahead: "restart",
  overloaded: "retry",
  unavailable: "retry",
  internal: "retry",
  unauthenticated: "ask",
  invalid_argument: "stop",
  already_exists: "stop",
  busy: "retry",
});

export interface HoldfastErrorOptions {
  readonly cause?: unknown;
  /** How long the peer asks us to wait before the remedy is applied. */
  readonly retryAfterMs?: number | undefined;
}

export class HoldfastError extends Error {
  readonly code: ErrorCode;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options: HoldfastErrorOptions = {}) {
    // `cause` is passed on only when it is there: an own property `cause: undefined` prints as noise.
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "HoldfastError";
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
  }

  /** An error of ours as it is; anything else with this code, under this message or its own. */
  static from(cause: unknown, code: ErrorCode = "internal", message?: string): HoldfastError {
    if (cause instanceof HoldfastError) return cause;
    return new HoldfastError(code, message ?? messageOf(cause), { cause });
  }

  /** The code of an error of ours; undefined for anything else. */
  static codeOf(cause: unknown): ErrorCode | undefined {
    return cause instanceof HoldfastError ? cause.code : undefined;
  }

  get remedy(): Remedy {
    return REMEDY_OF[this.code];
  }
}

/** The words of whatever was thrown. */
export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

const WIRE_OF: Readonly<Record<WireCode, WireErrorCode>> = Object.freeze({
  invalid_frame: WireErrorCode.INVALID_FRAME,
  too_large: WireErrorCode.TOO_LARGE,
  not_found: WireErrorCode.NOT_FOUND,
  stream_ended: WireErrorCode.STREAM_ENDED,
  stream_failed: WireErrorCode.STREAM_FAILED,
  seqno_conflict: WireErrorCode.SEQNO_CONFLICT,
  fenced: WireErrorCode.FENCED,
  unsupported_version: WireErrorCode.UNSUPPORTED_VERSION,
  seqno_gap: WireErrorCode.SEQNO_GAP,
  event_gap: WireErrorCode.EVENT_GAP,
  connection_lost: WireErrorCode.CONNECTION_LOST,
  stream_gone: WireErrorCode.STREAM_GONE,
  events_gone: WireErrorCode.EVENTS_GONE,
  event_ahead: WireErrorCode.EVENT_AHEAD,
  overloaded: WireErrorCode.OVERLOADED,
  unavailable: WireErrorCode.UNAVAILABLE,
  internal: WireErrorCode.INTERNAL,
  unauthenticated: WireErrorCode.UNAUTHENTICATED,
});

/** True for a code of ours: for codes that come from JSON, headers or a journal. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(REMEDY_OF, text);
}

function isWireCode(text: string): text is WireCode {
  return Object.hasOwn(WIRE_OF, text);
}

/** Every code that travels, once, in the order of the table. */
export const WIRE_CODES: readonly WireCode[] = Object.freeze(Object.keys(WIRE_OF).filter(isWireCode));

const CODE_OF: ReadonlyMap<WireErrorCode, WireCode> = new Map(
  WIRE_CODES.map((code) => [WIRE_OF[code], code]),
);

/** What the other side is told. A local mistake was not its own: to the peer it is a fault of this side. */
export function wireCodeOf(code: ErrorCode): WireCode {
  return isWireCode(code) ? code : "internal";
}

export function errorCodeToWire(code: ErrorCode): WireErrorCode {
  return WIRE_OF[wireCodeOf(code)];
}

/**
 * A code that a newer server knows and we do not is `internal`: retrying within a budget is the one
 * remedy that neither gives up a healthy stream nor throws away its state.
 */
export function errorCodeFromWire(code: WireErrorCode): WireCode {
  if (code === WireErrorCode.UNSPECIFIED) {
    throw new HoldfastError("invalid_frame", "an error frame has no code");
  }
  return CODE_OF.get(code) ?? "internal";
}
