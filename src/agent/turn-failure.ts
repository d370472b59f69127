/**
 * Why a turn cannot go on: told as data in its last event, the stream itself is well.
 */
import { create } from "@bufbuild/protobuf";
import { type Failure, FailureKind, FailureSchema } from "../protocol/messages.ts";
import { ModelFailure, type ModelFailureKind } from "./model.ts";

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

export class TurnFailure extends Error {
  readonly kind: TurnFailureKind;

  constructor(kind: TurnFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "TurnFailure";
    this.kind = kind;
  }
}

const OF_TURN: Readonly<Record<TurnFailureKind, FailureKind>> = {
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

const OF_MODEL: Readonly<Record<ModelFailureKind, FailureKind>> = {
  invalid_request: FailureKind.INVALID_REQUEST,
  model_not_found: FailureKind.MODEL_NOT_FOUND,
  rate_limited: FailureKind.RATE_LIMITED,
  unavailable: FailureKind.MODEL_UNAVAILABLE,
  unauthenticated: FailureKind.MODEL_UNAUTHENTICATED,
  context_too_long: FailureKind.CONTEXT_TOO_LONG,
  content_filtered: FailureKind.CONTENT_FILTERED,
};

const MESSAGE_CHARS_MAX = 2_000;

/** Undefined when it is no failure that anybody foresaw: a bug, which the host is told of. */
export function failureOf(error: unknown): Failure | undefined {
  if (error instanceof TurnFailure) {
    return create(FailureSchema, { kind: OF_TURN[error.kind], message: cut(error.message) });
  }
  if (error instanceof ModelFailure) {
    const { status, retryAfterMs } = error;
    return create(FailureSchema, {
      kind: OF_MODEL[error.kind],
      message: cut(error.message),
      providerStatus: status,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs: Math.min(Math.ceil(retryAfterMs), 0xffff_ffff) }),
    });
  }
  return undefined;
}

function cut(message: string): string {
  return message.length <= MESSAGE_CHARS_MAX ? message : `${message.slice(0, MESSAGE_CHARS_MAX)} ...`;
}
