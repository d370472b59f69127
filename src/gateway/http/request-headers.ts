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

/** In the header that browsers send when they come back, or in the query for who cannot set headers. */
export function lastEventIdOf(exchange: Exchange): string | undefined {
  return (
    exchange.header("last-event-id") ?? new URLSearchParams(exchange.query).get("starting_after") ?? undefined
  );
}
