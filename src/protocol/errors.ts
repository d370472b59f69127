/**
 * The closed set of errors, and what a client does about each.
 *
 * A code is the only thing that a program branches on; a message is for people. Each code has exactly one
 * remedy, so a client never has to guess whether trying again is safe. Wire codes are the enum of
 * `errors.proto`, in its order; the functions at the end are the only place where the two meet. Local codes are for
 * mistakes of a caller within one process, and never travel.
 */
import { ErrorCode as WireErrorCode } from "./gen/holdfast/v1/errors.ts";

/**
 * - `stop`: trying again cannot help; tell the user.
 * - `reconnect`: the stream is fine, this connection is not; attach again from the journal.
 * - `restart`: the stream is gone; open a new one from the checkpoint and the journaled outcomes.
 * - `retry`: it cannot be done now; the same again later, after `retryAfterMs` when it is given.
 * - `ask`: the credentials callback is asked once, then stop.
 */
export type Remedy = "stop" | "reconnect" | "restart" | "retry" | "ask";

/** What one side can tell the other. The first has the number 1 on the wire, and so on: a page need not load the enum's names beside these. */
const WIRE_REMEDIES = {
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
} as const satisfies Record<string, Remedy>;

/**
 * What only a caller in the same process can have done wrong.
 *
 * - `invalid_argument`: an option, a flag, a field of a file or an argument is not what it has to be.
 * - `already_exists`: the name is taken here.
 * - `busy`: another turn, process or tab is at it; the same call can succeed when that one is done.
 */
const LOCAL_REMEDIES = {
  invalid_argument: "stop",
  already_exists: "stop",
  busy: "retry",
} as const satisfies Record<string, Remedy>;

export type WireCode = keyof typeof WIRE_REMEDIES;
export type LocalCode = keyof typeof LOCAL_REMEDIES;
export type ErrorCode = WireCode | LocalCode;

export const REMEDY_OF: Readonly<Record<ErrorCode, Remedy>> = Object.freeze({
  ...WIRE_REMEDIES,
  ...LOCAL_REMEDIES,
});

interface HoldfastErrorOptions {
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

/** True for a code of ours: for codes that come from JSON, headers or a journal. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(REMEDY_OF, text);
}

function isWireCode(text: string): text is WireCode {
  return Object.hasOwn(WIRE_REMEDIES, text);
}

/** Every code that travels, once, in the order of the table. */
export const WIRE_CODES: readonly WireCode[] = Object.freeze(Object.keys(WIRE_REMEDIES).filter(isWireCode));

/** What the other side gets. A local mistake was not its own: to the peer it is a fault of this side. */
export function wireCodeOf(code: ErrorCode): WireCode {
  return isWireCode(code) ? code : "internal";
}

export function errorCodeToWire(code: ErrorCode): WireErrorCode {
  const number = WIRE_CODES.indexOf(wireCodeOf(code)) + 1;
  return Object.values(WireErrorCode).find((known) => known === number) ?? WireErrorCode.INTERNAL;
}

/**
 * A code that a newer server knows and we do not is `internal`: retrying within a budget is the one
 * remedy that neither gives up a healthy stream nor throws away its state.
 */
export function errorCodeFromWire(code: WireErrorCode): WireCode {
  if (code === 0) throw new HoldfastError("invalid_frame", "an error frame has no code");
  return WIRE_CODES[code - 1] ?? "internal";
}
