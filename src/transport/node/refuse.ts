/**
 * Answers a call that is refused before it has begun, in the way that its client understands.
 *
 * Connect wants a streaming call to be answered with status 200 and the error at its end, and a unary one with a
 * status and the error as JSON. A client that speaks neither gets the second.
 */
import type { HoldfastError } from "../../protocol/errors.ts";
import { endEnvelope } from "../connect/envelopes.ts";
import { connectErrorJson, endOfStreamJson, statusOf } from "../connect/errors.ts";
import { formatOf } from "../connect/formats.ts";
import { type Exchange, respondWith } from "./exchange.ts";
import { streamHead } from "./server-wire.ts";

export function refuse(exchange: Exchange, error: HoldfastError, status = statusOf(error)): void {
  const streamFormat = formatOf(exchange.header("content-type"), "stream");
  if (streamFormat !== undefined && status !== 415 && status !== 505) {
    const end = endEnvelope(Buffer.from(endOfStreamJson(error)));
    return respondWith(exchange, 200, streamHead(streamFormat), end);
  }
  const headers: Record<string, string> = { "content-type": "application/json", "cache-control": "no-store" };
  const { retryAfterMs } = error;
  if (retryAfterMs !== undefined) headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
  respondWith(exchange, status, headers, JSON.stringify(connectErrorJson(error)));
}
