/**
 * What a starting client does with each journal it finds.
 *
 * A stream that was generating is resumed; an ended one is cleaned up once nothing in it is owed; a
 * status of "generating" without valid state becomes "aborted". Whether a stream is still within the
 * window is asked at its welcome, by the server's clock (D7). One outside of it is skipped: the client
 * changes neither the stream nor the journal, and resumes it when the application asks for it by its name.
 */
import type { WelcomeFrame } from "../protocol/frames.ts";
import type { Recovered } from "./journal.ts";

/** How far back a starting client looks for streams to resume (`retryLookbackWindowMs`): two hours. */
export const WINDOW_MS = 7_200_000;

export type Finding =
  | { readonly kind: "resume" }
  /** Orphaned, or ended as `outcome` says: nothing can or need come of it. */
  | { readonly kind: "clear"; readonly outcome: "completed" | "aborted" | "failed" }
  /** It was generating, and nothing is left to continue from. */
  | { readonly kind: "mark_aborted" }
  /** Left alone: a damaged or fenced journal, or a lost one with something owed, is evidence, not rubbish. */
  | { readonly kind: "keep" };

/** `journal` is undefined when there are no records, "damaged" when they cannot be read. */
export function inspect(journal: Recovered | undefined | "damaged"): Finding {
  if (journal === "damaged") return { kind: "keep" };
  if (journal === undefined) return { kind: "clear", outcome: "aborted" };
  if (journal.outcome === "fenced") return { kind: "keep" };
  // The server has no such stream any more: only what never reached it is worth a look.
  if (journal.outcome === "lost")
    return isOwing(journal) ? { kind: "keep" } : { kind: "clear", outcome: "aborted" };
  if (journal.outcome !== undefined) return { kind: "clear", outcome: journal.outcome };
  // A degraded stream ended with its connection; resuming it would run its tools again.
  if (journal.degraded) return { kind: "mark_aborted" };
  return { kind: "resume" };
}

/** Whether it holds a chunk that was not acknowledged, or an exec whose result was not. */
function isOwing({ unacked, execs }: Recovered): boolean {
  return unacked.length > 0 || [...execs.values()].some(({ entry }) => entry.phase !== "acked");
}

/**
 * The window counts from the later of two times of the server's clock: when this client last saw the stream, and when
 * something last happened on it. A stream without a recorded server time was never welcomed, so it cannot be too old.
 */
export function isWithinWindow(
  seenServerTimeMs: number | undefined,
  { serverTimeMs, lastActivityMs }: Pick<WelcomeFrame, "serverTimeMs" | "lastActivityMs">,
  windowMs: number,
): boolean {
  if (seenServerTimeMs === undefined) return true;
  return serverTimeMs - Math.max(seenServerTimeMs, lastActivityMs) <= windowMs;
}
