/**
 * Failures of a turn and errors of a stream, as OpenAI's clients get them.
 *
 * The question is always the same: can the identical request succeed later? Then 429 or 5xx; else a 4xx that no client retries. In
 * particular a refusal of the server's own credentials is no 401 (the client would ask its user for another API key)
 * and no 5xx (the client would try again): 424, the thing that this answer depends on failed.
 *
 * Two closed tables, one row per kind and per code. The provider's own status is passed on where it says the same as the kind: clients
 * have rules for 408, 429, 500 and 529 of their own.
 */
import { type ErrorCode, HoldfastError } from "../../protocol/errors.ts";
import { type Failure, FailureKind } from "../../protocol/messages.ts";
import { GatewayError, type GatewayErrorInit } from "./gateway-error.ts";

type Row = Pick<GatewayErrorInit, "status" | "type" | "code" | "param">;

const BROKEN: Row = { status: 500, type: "server_error" };
const LATER: Row = { status: 503, type: "server_error" };
const REFUSED: Row = { status: 400, type: "invalid_request_error" };

const OF_FAILURE: Readonly<Record<FailureKind, Row>> = {
  [FailureKind.UNSPECIFIED]: BROKEN,
  [FailureKind.INVALID_REQUEST]: REFUSED,
  [FailureKind.MODEL_NOT_FOUND]: { ...REFUSED, status: 404, code: "model_not_found", param: "model" },
  [FailureKind.RATE_LIMITED]: { status: 429, type: "rate_limit_error", code: "rate_limit_exceeded" },
  [FailureKind.MODEL_UNAVAILABLE]: { ...LATER, code: "model_unavailable" },
  [FailureKind.MODEL_UNAUTHENTICATED]: {
    status: 424,
    type: "upstream_error",
    code: "upstream_unauthenticated",
  },
  [FailureKind.CONTEXT_TOO_LONG]: { ...REFUSED, code: "context_length_exceeded", param: "messages" },
  [FailureKind.CONTENT_FILTERED]: { ...REFUSED, code: "content_filter" },
  // The next request brings the whole history, and needs no blob of before.
  [FailureKind.BLOB_MISSING]: BROKEN,
  [FailureKind.RESTARTS_EXHAUSTED]: LATER,
  [FailureKind.INTERNAL]: BROKEN,
  // Bounds against an agent that runs wild: a client that tried again by itself would run on.
  [FailureKind.STEP_LIMIT]: { ...REFUSED, code: "step_limit" },
  [FailureKind.TOKEN_LIMIT]: { ...REFUSED, code: "token_limit" },
  [FailureKind.NO_PROGRESS]: { ...REFUSED, code: "no_progress" },
  [FailureKind.UPSTREAM_INTERRUPTED]: { ...LATER, code: "upstream_interrupted" },
};

/** Of a turn that failed; what a newer server knows and we do not is the server's own fault. */
export function failureError(failure: Failure | undefined): GatewayError {
  const kind = failure?.kind ?? FailureKind.UNSPECIFIED;
  const row = withStatus(OF_FAILURE[kind] ?? BROKEN, kind, failure?.providerStatus ?? 0);
  const message = failure?.message ?? "";
  return new GatewayError({
    ...row,
    message: message === "" ? "the model's turn failed without a reason; try again" : message,
    retryAfterMs: failure?.retryAfterMs,
  });
}

const TOO_SLOW: Row = { status: 408, type: "timeout_error", code: "model_unavailable" };
const NO_CREDIT: Row = { status: 402, type: "invalid_request_error", code: "insufficient_quota" };

/** Those of a request that cannot succeed: no client retries them, and none is about the API key. */
const REFUSALS: ReadonlySet<number> = new Set([400, 405, 406, 411, 413, 414, 415, 422, 431]);

function withStatus(row: Row, kind: FailureKind, status: number): Row {
  switch (kind) {
    case FailureKind.RATE_LIMITED:
      return status === 402 ? NO_CREDIT : row;
    case FailureKind.MODEL_UNAVAILABLE:
      if (status === 408) return TOO_SLOW;
      return status >= 500 && status < 600 ? { ...row, status } : row;
    case FailureKind.INVALID_REQUEST:
    case FailureKind.CONTEXT_TOO_LONG:
    case FailureKind.CONTENT_FILTERED:
      return REFUSALS.has(status) ? { ...row, status } : row;
    default:
      return row;
  }
}

/** The way to the answer is broken, and not the answer. */
const UNREACHED: Row = { ...LATER, code: "unavailable" };

const OF_CODE: Readonly<Record<ErrorCode, Row>> = {
  invalid_frame: REFUSED,
  too_large: { ...REFUSED, status: 413, code: "request_too_large" },
  not_found: { ...REFUSED, status: 404, code: "not_found" },
  stream_ended: BROKEN,
  stream_failed: BROKEN,
  seqno_conflict: BROKEN,
  // Another node of the gateway has the session now; a retry finds it there.
  fenced: UNREACHED,
  unsupported_version: { status: 424, type: "upstream_error", code: "unsupported_version" },
  seqno_gap: UNREACHED,
  event_gap: UNREACHED,
  connection_lost: UNREACHED,
  stream_gone: { ...REFUSED, status: 410, code: "stream_gone" },
  events_gone: { ...REFUSED, status: 410, code: "events_gone" },
  event_ahead: { ...REFUSED, status: 410, code: "event_ahead" },
  overloaded: { ...LATER, code: "overloaded" },
  unavailable: UNREACHED,
  internal: BROKEN,
  // The gateway's own API key for its server; a client's was checked before.
  unauthenticated: { status: 424, type: "upstream_error", code: "upstream_unauthenticated" },
  // Mistakes of the gateway's own code; a request's are found before it becomes a call of the client.
  invalid_argument: BROKEN,
  already_exists: BROKEN,
  // Another process has the stream now; a retry finds it free, or finds it there.
  busy: UNREACHED,
};

/** Whatever was thrown. An unforeseen error is reported without its message, which may hold anything. */
export function toGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  if (error instanceof HoldfastError) {
    const { code, message, retryAfterMs } = error;
    return new GatewayError({ ...OF_CODE[code], message, retryAfterMs, cause: error });
  }
  const message = "the gateway failed on this request; try again, and look into its log by the request id";
  return new GatewayError({ ...BROKEN, message, cause: error });
}
