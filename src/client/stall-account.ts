/**
 * A client's account of its stalls: counts them, and tells the application, which may want them in its log.
 *
 * By default nothing is printed: a stall is in the stream's status, and in these numbers.
 */
import { counted, noStalls, type StallCounts, type StallNews } from "../core/standstill.ts";

/** A stall was noticed, or is over. `stallLine` makes a line of it. */
export type StreamStallNews = StallNews & { readonly idempotencyKey: string };

export type OnStall = (news: StreamStallNews) => void;

export function stallAccount(onStall: OnStall | undefined, onBug: (bug: unknown) => void) {
  let counts = noStalls();

  return {
    get counts(): StallCounts {
      return counts;
    },
    tell(news: StreamStallNews): void {
      counts = counted(counts, news);
      try {
        onStall?.(news);
      } catch (bug) {
        // A listener that fails must not fail the stream.
        onBug(bug);
      }
    },
  };
}
