/**
 * Errors as Anthropic's clients read them. They decide by the status whether to try again, and show the type and the message to people.
 *
 * The status is the same at every door. The code is ours: `holdfast/fetch` knows by it which errors mean that the answer is kept.
 */
import type { ErrorType, GatewayError } from "../openai/index.ts";

interface MessageErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly code?: string;
    readonly param?: string;
  };
  readonly request_id?: string;
}

/** `requestId`: of the response, whose status it has; absent in a stream. */
export function messageErrorBody(error: GatewayError, requestId?: string): MessageErrorBody {
  const { message, code, param } = error;
  return {
    type: "error",
    error: {
      type: typeOf(error),
      message,
      ...(code === null ? {} : { code }),
      ...(param === null ? {} : { param }),
    },
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

/** Statuses that have a type of their own, whatever the error is called elsewhere. */
const OF_STATUS: Readonly<Record<number, string | undefined>> = {
  402: "billing_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

const OF_TYPE: Readonly<Record<ErrorType, string>> = {
  invalid_request_error: "invalid_request_error",
  authentication_error: "authentication_error",
  permission_error: "permission_error",
  rate_limit_error: "rate_limit_error",
  server_error: "api_error",
  timeout_error: "timeout_error",
  upstream_error: "api_error",
  aborted_error: "invalid_request_error",
};

/** What is too busy for now, be it the provider or this server. */
const OVERLOADED: ReadonlySet<string | null> = new Set(["overloaded", "model_unavailable"]);

function typeOf({ status, type, code }: GatewayError): string {
  return OF_STATUS[status] ?? (OVERLOADED.has(code) && status >= 500 ? "overloaded_error" : OF_TYPE[type]);
}
