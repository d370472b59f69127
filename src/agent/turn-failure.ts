/**
 * Why a turn cannot continue, as data in its last event: the stream itself is well.
 */
import { create } from "../protocol/message.ts";
import { type Failure, FailureKind, FailureSchema } from "../protocol/messages.ts";
import { cutMessage, failure, type TurnFailureKind } from "../turn/failure.ts";
import { ModelFailure, type ModelFailureKind } from "./model.ts";

export class TurnFailure extends Error {
  readonly kind: TurnFailureKind;

  constructor(kind: TurnFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "TurnFailure";
    this.kind = kind;
  }
}

const OF_MODEL: Readonly<Record<ModelFailureKind, FailureKind>> = {
  invalid_request: FailureKind.INVALID_REQUEST,
  model_not_found: FailureKind.MODEL_NOT_FOUND,
  rate_limited: FailureKind.RATE_LIMITED,
  unavailable: FailureKind.MODEL_UNAVAILABLE,
  unauthenticated: FailureKind.MODEL_UNAUTHENTICATED,
  context_too_long: FailureKind.CONTEXT_TOO_LONG,
  content_filtered: FailureKind.CONTENT_FILTERED,
  not_held: FailureKind.MODEL_UNAVAILABLE,
};

/** Undefined for an unforeseen failure: a bug, which the host gets. */
export function failureOf(error: unknown): Failure | undefined {
  if (error instanceof TurnFailure) {
    return failure(error.kind, error.message);
  }
  if (error instanceof ModelFailure) {
    const { status, retryAfterMs } = error;
    return create(FailureSchema, {
      kind: OF_MODEL[error.kind],
      message: cutMessage(error.message),
      providerStatus: status,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs: Math.min(Math.ceil(retryAfterMs), 0xffff_ffff) }),
    });
  }
  return undefined;
}
