/**
 * What a starting client does with each journal it finds.
 *
 * A stream that was generating is resumed; an ended one is cleaned up once nothing in it is owed; a
 * status of "generating" without valid state becomes "aborted". Whether a stream is still within the
 * window is asked again at its welcome, by the server's clock (D7).
 */
import type { Recovered } from "./journal.ts";

/** How far back a starting client looks for streams to resume (`retryLookbackWindowMs`): two hours. */
export const WINDOW_MS = 7_200_000;

export type Finding =
  | { readonly kind: "resume" }
  /** Orphaned, or ended as `outcome` says: nothing can or need come of it. */
  | { readonly kind: "clear"; readonly outcome: "completed" | "aborted" | "failed" }
  /** It was generating, and nothing is left to go on from. */
  | { readonly kind: "mark_aborted" }
  /** Left alone: damaged or fenced journals are evidence, not rubbish. */
  | { readonly kind: "keep" };

/** `journal` is undefined when there are no records, "damaged" when they cannot be read. */
export function inspect(journal: Recovered | undefined | "damaged"): Finding {
  if (journal === "damaged") return { kind: "keep" };
  if (journal === undefined) return { kind: "clear", outcome: "aborted" };
  if (journal.outcome === "fenced" || journal.outcome === "lost") return { kind: "keep" };
  if (journal.outcome !== undefined) return { kind: "clear", outcome: journal.outcome };
  // A degraded stream ended with its connection; going on would run its tools again.
  if (journal.degraded) return { kind: "mark_aborted" };
  return { kind: "resume" };
}

export type Status = "generating" | "completed" | "aborted" | "failed";

/** The status an application stored, corrected by what the journal says. */
export function restoreStatus(stored: Status, found: Finding): Status {
  if (stored !== "generating" || found.kind === "resume") return stored;
  return found.kind === "clear" ? found.outcome : "aborted";
}

/** A stream without a recorded server time was never welcomed, so there is nothing to be too late for. */
export function isWithinWindow(
  seenServerTimeMs: number | undefined,
  serverTimeMs: number,
  windowMs: number,
): boolean {
  return seenServerTimeMs === undefined || serverTimeMs - seenServerTimeMs <= windowMs;
}
