/**
 * A standstill: the time in which a stream should move and does not, from its last activity until something moves again.
 *
 * Both sides notice standstills, by clocks of their own (`stall.ts` on the client, `turn-stall.ts` on the server), and both
 * report them in the same words: one report when it is noticed, one when it is over. A reconnect in between is no activity,
 * so it does not end a standstill.
 *
 * Invariant: at most one standstill per clock is open, and each one that was reported is reported once more when it is over.
 */
import { nameOfRequest, type ServerRequest } from "../protocol/request-codec.ts";

/**
 * - *silence*: nothing at all was received. Only the client has this clock.
 * - *no progress*: the server owes something, and no event and no ack comes.
 * - *unanswered*: the server asked its client for something, and the client does not deal with it.
 */
export type Clock = "silence" | "no_progress" | "unanswered";

export const CLOCKS: readonly Clock[] = ["silence", "no_progress", "unanswered"];

export interface Standstill {
  readonly clock: Clock;
  /** What stands still. */
  readonly stuck: string;
  /** The last activity. */
  readonly sinceMs: number;
}

/** A request of the server that is not answered. */
export interface OpenRequest extends ServerRequest {
  readonly askedMs: number;
}

interface UnansweredRequest {
  /** As `nameOfRequest` says it. */
  readonly request: string;
  readonly ageMs: number;
}

export type StallNews =
  | {
      readonly kind: "stalled";
      readonly clock: Clock;
      readonly stuck: string;
      readonly stillMs: number;
      /** The oldest requests that wait for this stream's client. */
      readonly unanswered: readonly UnansweredRequest[];
    }
  /** Something moves again. */
  | { readonly kind: "resumed"; readonly clock: Clock; readonly stuck: string; readonly stillMs: number }
  /** The stream is over, or this process has let go of it, before anything moved. */
  | { readonly kind: "ended"; readonly clock: Clock; readonly stuck: string };

/** A line of a log stays a line. */
const NAMED_MAX = 8;

export function noticed(
  { clock, stuck, sinceMs }: Standstill,
  requests: readonly OpenRequest[],
  nowMs: number,
): StallNews {
  const unanswered = requests
    .slice(0, NAMED_MAX)
    .map((request) => ({ request: nameOfRequest(request), ageMs: nowMs - request.askedMs }));
  return { kind: "stalled", clock, stuck, stillMs: nowMs - sinceMs, unanswered };
}

export function resumed({ clock, stuck, sinceMs }: Standstill, nowMs: number): StallNews {
  return { kind: "resumed", clock, stuck, stillMs: nowMs - sinceMs };
}

export function ended({ clock, stuck }: Standstill): StallNews {
  return { kind: "ended", clock, stuck };
}

/** How many standstills there were by clock, and how many there are now: what metrics show. */
export type StallCounts = Readonly<
  Record<Clock, { readonly stalled: number; readonly resumed: number; readonly now: number }>
>;

const NONE = { stalled: 0, resumed: 0, now: 0 };

export function noStalls(): StallCounts {
  return { silence: NONE, no_progress: NONE, unanswered: NONE };
}

export function counted(counts: StallCounts, { kind, clock }: StallNews): StallCounts {
  const before = counts[clock];
  const after = {
    stalled: before.stalled + (kind === "stalled" ? 1 : 0),
    resumed: before.resumed + (kind === "resumed" ? 1 : 0),
    now: before.now + (kind === "stalled" ? 1 : -1),
  };
  return { ...counts, [clock]: after };
}

/** One line for a log. */
export function stallLine(news: StallNews): string {
  switch (news.kind) {
    case "stalled": {
      const waiting = news.unanswered.map(({ request, ageMs }) => `${request} for ${seconds(ageMs)}`);
      const rest = waiting.length === 0 ? "" : `; unanswered: ${waiting.join(", ")}`;
      return `stall detected (${news.clock}): ${news.stuck} stands still for ${seconds(news.stillMs)}${rest}`;
    }
    case "resumed":
      return `activity resumed after a stall (${news.clock}): ${news.stuck} stood still for ${seconds(news.stillMs)}`;
    case "ended":
      return `the stream ended during a stall (${news.clock}): ${news.stuck} stood still`;
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
