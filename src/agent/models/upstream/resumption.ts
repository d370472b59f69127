/**
 * A generation that its provider keeps, so that another connection can read on where one broke. Pure: events in, a verdict and requests out.
 *
 * Invariant: what is passed on is one generation, without a gap and without anything twice; `take` proves it event by event (G1).
 */
import type { SseEvent } from "./sse-events.ts";

/** What is known of an event that came: it is the next one, it was passed on before, some are missing before it, or it contradicts them. */
export type Verdict = "next" | "known" | "gap" | "contradiction";

export interface ResumeRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a look at a run says: it is not complete, it has ended without an answer, it is not what was passed on, or what is missing of it. */
export type Looked = "running" | "over" | "contradiction" | { readonly rest: readonly SseEvent[] };

export interface Resumption {
  /** An error within its stream may be the stream's alone. */
  readonly outlivesErrors: boolean;
  take(event: SseEvent): Verdict;
  /** Reads on behind the last event. Undefined while nothing names the generation. */
  readonly stream: ResumeRequest | undefined;
  /** Looks at the generation as a whole, for providers that no longer stream it; undefined where that cannot be done. */
  readonly look: ResumeRequest | undefined;
  readonly looked: (run: unknown) => Looked;
  /** Ends the generation at the provider, which would write on without a reader (G4). */
  readonly cancel: ResumeRequest | undefined;
}

/** Of the request that began it: what signs in, and nothing about its body. */
export function signInOf(headers: Headers): Readonly<Record<string, string>> {
  const kept = [...headers].filter(([name]) => !/^(?:content-|accept$|idempotency-key$)/.test(name));
  return Object.fromEntries(kept);
}
