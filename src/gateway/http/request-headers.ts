/**
 * What clients of the gateway say in headers.
 */
import type { Exchange } from "../../transport/node/exchange.ts";
import { invalidRequest } from "../openai/index.ts";

const VISIBLE = /^[\x21-\x7e]{1,256}$/;

/** Undefined when there is none. One that cannot be kept is refused: to ignore it would answer a retry with a second generation. */
export function idempotencyKeyOf(exchange: Exchange): string | undefined {
  const given = exchange.header("idempotency-key");
  if (given === undefined || VISIBLE.test(given)) return given;
  throw invalidRequest(
    "Idempotency-Key",
    "The header Idempotency-Key has 1 to 256 visible ASCII characters; a UUID is a good one.",
  );
}

/** Anthropic's SDKs name the version of its API with each request. */
export function speaksMessages(exchange: Pick<Exchange, "header" | "path">): boolean {
  return exchange.header("anthropic-version") !== undefined || MESSAGES_PATH.test(exchange.path);
}

const MESSAGES_PATH = /^(?:\/v1)+\/messages(?:\/|$)/;

const SECONDS = /^\d{1,6}$/;

/** How long the client wants its answer to be kept under way without a reader. The gateway has a bound of its own. */
export function patienceMsOf(exchange: Exchange): number | undefined {
  const given = exchange.header("x-holdfast-patience");
  if (given === undefined) return undefined;
  if (SECONDS.test(given)) return Number(given) * 1_000;
  throw invalidRequest("x-holdfast-patience", "The header x-holdfast-patience is a number of seconds.");
}

/** In the header that browsers send when they reconnect, or in the query for clients that cannot set headers. */
export function lastEventIdOf(exchange: Exchange): string | undefined {
  return (
    exchange.header("last-event-id") ?? new URLSearchParams(exchange.query).get("starting_after") ?? undefined
  );
}
