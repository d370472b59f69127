/**
 * Whole answers: small bodies, the right headers, and a request's body that no handler reads.
 */
import type { HoldfastError } from "../../protocol/errors.ts";
import { connectErrorJson, statusOf } from "../../transport/connect/errors.ts";
import { respondWith, type ResponseHeaders } from "../../transport/node/exchange.ts";
import type { ObservedExchange } from "./observed-exchange.ts";

/** On every answer. Nothing here is for caches, for other sites, or to be guessed at. */
export const SECURITY_HEADERS: ResponseHeaders = Object.freeze({
  "cache-control": "no-store",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  vary: "origin",
  "x-content-type-options": "nosniff",
});

/** For pages: they load nothing but what is ours, and no page may frame them. */
export const PAGE_HEADERS: ResponseHeaders = Object.freeze({
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "content-type": "text/html; charset=utf-8",
  "x-frame-options": "DENY",
});

export function answer(
  exchange: ObservedExchange,
  status: number,
  headers: ResponseHeaders,
  body: string,
): void {
  respondWith(exchange, status, headers, exchange.method === "HEAD" ? "" : body);
  discardBody(exchange);
}

export function answerEmpty(exchange: ObservedExchange, status: number, headers: ResponseHeaders): void {
  exchange.respond(status, headers);
  exchange.end();
  discardBody(exchange);
}

export function answerJson(
  exchange: ObservedExchange,
  status: number,
  body: object,
  headers: ResponseHeaders = {},
): void {
  answer(exchange, status, { ...headers, "content-type": "application/json" }, `${JSON.stringify(body)}\n`);
}

/**
 * An error as Connect writes it, with the status that says the same. Connect would have a streaming call answered with 200 and the error
 * at its end; but proxies, logs and people go by the status, and every client of Connect understands both.
 */
export function answerError(
  exchange: ObservedExchange,
  error: HoldfastError,
  status = statusOf(error),
): void {
  const { retryAfterMs } = error;
  const headers: Record<string, string> = {};
  if (retryAfterMs !== undefined) headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
  if (status === 401) headers["www-authenticate"] = "Bearer";
  answerJson(exchange, status, connectErrorJson(error), headers);
}

/** After an answer so much more is read, so that a client that is still sending gets to read it. */
const DISCARD_BYTES_MAX = 1024 * 1024;
const DISCARD_MS = 5_000;

/**
 * Reads away what is left of a request that has been answered, within bounds. Hanging up at once would make some clients lose the
 * answer; not reading would keep an HTTP/2 stream open for as long as the client likes.
 */
export function discardBody(exchange: ObservedExchange): void {
  if (exchange.isListening) return;
  let left = DISCARD_BYTES_MAX;
  const timer = setTimeout(() => exchange.destroy(), DISCARD_MS);
  timer.unref();
  exchange.listen({
    received: (piece) => {
      left -= piece.length;
      if (left < 0) exchange.destroy();
    },
    ended: () => undefined,
    drained: () => undefined,
    closed: () => clearTimeout(timer),
  });
}
