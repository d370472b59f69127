/**
 * What an OpenAI client gets when something goes wrong: a status, and a body in OpenAI's shape.
 *
 * Clients decide by status and `error.type` whether to try again, some of them without end, so both must be honest:
 * a 4xx is never a `server_error`, and what cannot succeed has no status that clients retry (408, 409, 429, 5xx).
 * `x-should-retry` says the same aloud for the clients that read it.
 *
 * Invariant: an error that is not retryable has a status that no client retries; but for 429 at the end of a day's tokens, whose `retry-after` says hours.
 */

/** OpenAI's own names, and four of ours for what OpenAI has no word for. */
export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "rate_limit_error"
  | "server_error"
  /** The provider answered 408: a status below 500 that a retry may mend. */
  | "timeout_error"
  /** The server's own access to the provider is wrong: its operator must act, the client cannot. */
  | "upstream_error"
  /** A client stopped the answer on purpose. */
  | "aborted_error";

export interface GatewayErrorInit {
  readonly status: number;
  readonly type: ErrorType;
  /** Says what to do. */
  readonly message: string;
  /** For programs; null when the type says it all. */
  readonly code?: string | null;
  /** The field of the request that is wrong. */
  readonly param?: string | null;
  readonly retryAfterMs?: number | undefined;
  /** Default: by its type. */
  readonly isRetryable?: boolean;
  readonly cause?: unknown;
}

export class GatewayError extends Error {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly param: string | null;
  readonly retryAfterMs: number | undefined;
  /** The same again, soon, may succeed. */
  readonly isRetryable: boolean;

  constructor(init: GatewayErrorInit) {
    const { status, type, message, code = null, param = null, retryAfterMs, cause } = init;
    super(message, cause === undefined ? undefined : { cause });
    this.name = "GatewayError";
    this.status = status;
    this.type = type;
    this.code = code;
    this.param = param;
    this.retryAfterMs = retryAfterMs;
    this.isRetryable = init.isRetryable ?? RETRYABLE.has(type);
  }
}

const RETRYABLE: ReadonlySet<ErrorType> = new Set(["rate_limit_error", "server_error", "timeout_error"]);

/**
 * Codes that mean: the answer is kept, or was not begun; ask for it again and it is the same one. `holdfast/fetch` acts on these and on no others, so
 * the list is closed. Every other error is the answer to its request.
 */
export const RETRY_CODES = ["shutting_down", "answer_interrupted", "unavailable", "overloaded"] as const;

export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: ErrorType;
    readonly param: string | null;
    readonly code: string | null;
  };
}

export function errorBody({ message, type, param, code }: GatewayError): ErrorBody {
  return { error: { message, type, param, code } };
}

/** Beside the body. `retry-after` has whole seconds, rounded up. */
export function errorHeaders(error: GatewayError): Readonly<Record<string, string>> {
  const { retryAfterMs, isRetryable } = error;
  return {
    "x-should-retry": String(isRetryable),
    ...(retryAfterMs === undefined
      ? {}
      : {
          "retry-after": String(Math.ceil(retryAfterMs / 1000)),
          "retry-after-ms": String(Math.ceil(retryAfterMs)),
        }),
  };
}

/** The request is wrong, and this field of it is why. */
export function invalidRequest(param: string, message: string, code: string | null = null): GatewayError {
  return new GatewayError({ status: 400, type: "invalid_request_error", message, param, code });
}
