/**
 * What the gateway's HTTP takes from its clients, and how long it waits for them (E8, F2).
 */
import { LIMITS } from "../../protocol/limits.ts";

export interface HttpLimits {
  /** Of a request's body, also after it was unpacked. */
  readonly bodyBytesMax: number;
  /** Bodies under way, of all requests; one principal may have half. */
  readonly bodiesBytesMax: number;
  readonly bodyTimeoutMs: number;
  /** JSON is small as text and large once parsed. */
  readonly jsonValuesMax: number;
  /** So long the head of a streamed response waits for the first content; a failure until then is an HTTP status. */
  readonly headHeldMs: number;
  /** Silence after which a client is sent an empty delta. */
  readonly heartbeatMs: number;
  /** A client that takes nothing for so long is cut. */
  readonly stalledMs: number;
}

const MIB = 1024 * 1024;

export const HTTP_LIMITS: HttpLimits = Object.freeze({
  bodyBytesMax: LIMITS.bodyBytesMax,
  // Four of the largest for each of two principals.
  bodiesBytesMax: 256 * MIB,
  bodyTimeoutMs: 60_000,
  // A history of 25,000 messages; a parser needs at most half a second for so many, whatever they are.
  jsonValuesMax: 256 * 1024,
  // A provider that refuses does so within seconds; proxies cut at 30 s and more without a byte.
  headHeldMs: 10_000,
  // Clients and proxies begin to doubt at 15 s.
  heartbeatMs: 10_000,
  stalledMs: 30_000,
});
