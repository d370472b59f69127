/**
 * Which headers cross the gateway with a request that is passed on: these, and no others.
 *
 * The client's credentials, cookies and addresses stay here, and so do the provider's.
 */
import type { Exchange, ResponseHeaders } from "../../transport/node/exchange.ts";

const UP = ["content-type", "accept"] as const;

const DOWN: ReadonlySet<string> = new Set([
  "content-type",
  "content-length",
  "retry-after",
  "retry-after-ms",
  "openai-model",
  "openai-processing-ms",
  "openai-version",
]);
const LIMITS = /^(?:x-|anthropic-)ratelimit-[a-z0-9-]{1,48}$/;
const VALUE = /^[\x20-\x7e]{1,512}$/;

export function headersUp(exchange: Exchange): Record<string, string> {
  // As it is: what is packed could not be looked through for the API key.
  const up: Record<string, string> = { "accept-encoding": "identity" };
  for (const name of UP) {
    const value = exchange.header(name);
    if (value !== undefined) up[name] = value;
  }
  return up;
}

export function headersDown(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): ResponseHeaders {
  const down: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const isPassed = DOWN.has(name) || LIMITS.test(name);
    if (isPassed && typeof value === "string" && VALUE.test(value)) down[name] = value;
  }
  return down;
}
