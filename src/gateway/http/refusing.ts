/**
 * Errors on their way to a client: a status, headers, and a body in the shape that the client's SDK knows; the log names the error.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { messageErrorBody } from "../messages/index.ts";
import { errorBody, errorHeaders, GatewayError } from "../openai/index.ts";
import { CallEnded, type HttpCall } from "./http-call.ts";
import type { MountedCall } from "./mounted.ts";
import { speaksMessages } from "./request-headers.ts";
import { ResponseProgress } from "./response-progress.ts";
import { MethodNotAllowed } from "./routes.ts";

/** Nothing to a client that has hung up. */
export function refuse(mounted: MountedCall, call: HttpCall, cause: unknown): void {
  if (cause instanceof CallEnded && cause.why === "hung_up") return;
  const { exchange, requestId } = mounted;
  const error = new ResponseProgress((failure, why) => report(mounted, failure, why)).failed(cause);
  if (exchange.hasResponded) {
    call.destroy();
    return;
  }
  const headers: Record<string, string> = { "content-type": "application/json", ...errorHeaders(error) };
  if (error.status === 401) headers["www-authenticate"] = "Bearer";
  if (error instanceof MethodNotAllowed) headers["allow"] = error.allow;
  // Only a request of HTTP/1 can ask for it: HTTP/2 refuses one that has such a header.
  if (error.status === 426) headers["upgrade"] = "HTTP/1.1";
  const body = speaksMessages(exchange) ? messageErrorBody(error, requestId) : errorBody(error);
  call.respond(error.status, headers, `${JSON.stringify(body)}\n`);
}

/** The log names the error; an unforeseen one is a bug of ours. */
export function report(mounted: MountedCall, error: GatewayError, cause: unknown): void {
  mounted.tell({ error: error.code ?? error.type });
  const isForeseen =
    cause instanceof GatewayError || cause instanceof HoldfastError || cause instanceof CallEnded;
  if (!isForeseen) mounted.onBug(cause);
}

export function signInError(cause: unknown): unknown {
  if (!(cause instanceof HoldfastError)) return cause;
  const { code, message, retryAfterMs } = cause;
  if (code === "unauthenticated") {
    return new GatewayError({ status: 401, type: "authentication_error", code: "invalid_api_key", message });
  }
  if (code !== "overloaded") return cause;
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "too_many_failed_sign_ins",
    message,
    retryAfterMs,
  });
}
