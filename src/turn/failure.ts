/**
 * Why a turn cannot continue, as data in its last event: the stream itself is well.
 */
import { firstChars } from "../protocol/characters.ts";
import { create } from "../protocol/message.ts";
import { type Failure, FailureKind, FailureSchema } from "../protocol/messages.ts";
import type { Decision, Ending } from "./decision.ts";

export type TurnFailureKind =
  | "invalid_request"
  | "blob_missing"
  | "restarts_exhausted"
  | "step_limit"
  | "token_limit"
  | "no_progress"
  | "content_filtered"
  | "context_too_long"
  /** The provider broke off what cannot be taken back. */
  | "upstream_interrupted"
  | "internal";

const KINDS: Readonly<Record<TurnFailureKind, FailureKind>> = {
  invalid_request: FailureKind.INVALID_REQUEST,
  blob_missing: FailureKind.BLOB_MISSING,
  restarts_exhausted: FailureKind.RESTARTS_EXHAUSTED,
  step_limit: FailureKind.STEP_LIMIT,
  token_limit: FailureKind.TOKEN_LIMIT,
  no_progress: FailureKind.NO_PROGRESS,
  content_filtered: FailureKind.CONTENT_FILTERED,
  context_too_long: FailureKind.CONTEXT_TOO_LONG,
  upstream_interrupted: FailureKind.UPSTREAM_INTERRUPTED,
  internal: FailureKind.INTERNAL,
};

const MESSAGE_CHARS_MAX = 2_000;

export function failure(kind: TurnFailureKind, message: string): Failure {
  return create(FailureSchema, { kind: KINDS[kind], message: cutMessage(message) });
}

export function cutMessage(message: string): string {
  return firstChars(message, MESSAGE_CHARS_MAX, " ...");
}

export function failed(kind: TurnFailureKind, message: string): Ending {
  return { reason: "failed", failure: failure(kind, message) };
}

/** At once, without a last checkpoint: the conversation before the turn is not known. */
export function endFailed(kind: TurnFailureKind, message: string): Decision {
  return { kind: "end", ending: failed(kind, message) };
}
