/**
 * What a server counts while it works: plain numbers in one object.
 *
 * The hot path only adds to fields; `/metrics` reads them when it is asked. Nothing here
 * names a stream, a principal or a key, so nothing of it can leak (E4).
 */
import { noStalls, type StallCounts } from "../core/standstill.ts";
import { type ErrorCode, type WireCode, wireCodeOf } from "../protocol/errors.ts";
import type { ServerFrame } from "../protocol/frames.ts";

/** Upper bounds in seconds of a tally's buckets: from a write in memory to a disk that hangs. */
const SECONDS_BOUNDS: readonly number[] = Object.freeze([
  0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2.5, 10,
]);

/** Upper bounds in bytes: from one small event to the largest group. */
const BYTES_BOUNDS: readonly number[] = Object.freeze([
  256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216,
]);

/** A histogram: how many values fell under each bound (and under none before it), their sum and number. */
export class Tally {
  readonly bounds: readonly number[];
  /** One more than bounds: the last one counts what is above all of them. */
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number): void {
    let at = 0;
    while (at < this.bounds.length && value > (this.bounds[at] ?? 0)) at++;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
    this.count++;
  }
}

export interface ServerCounters {
  /** Attaches that were welcomed, by what they found. */
  opened: number;
  resumed: number;
  degraded: number;
  /** Error frames and refused requests, by code. */
  readonly refusals: Record<WireCode, number>;
  /** Commits of single streams; many of them share one append of the store. */
  commits: number;
  /** From handing a stream's commit to the store until it is durable. */
  readonly commitSeconds: Tally;
  chunksCommitted: number;
  eventsCommitted: number;
  acks: number;
  /** Reads of the store for a reader that is behind what is kept in memory. */
  replays: number;
  /** Commits, loads and appends that the store has refused. */
  storeFailures: number;
  /** Failed assertions and what the application has thrown. */
  bugs: number;
  expired: number;
  /** Standstills: of the turns that this server runs, and of streams whose client is in the same process (the gateway). */
  readonly stalls: Record<"server" | "client", StallCounts>;
  /** Appends of the store's log, each a group of commits with one sync. */
  readonly appendSeconds: Tally;
  readonly appendBytes: Tally;
}

export function newServerCounters(): ServerCounters {
  return {
    opened: 0,
    resumed: 0,
    degraded: 0,
    refusals: noRefusals(),
    commits: 0,
    commitSeconds: new Tally(SECONDS_BOUNDS),
    chunksCommitted: 0,
    eventsCommitted: 0,
    acks: 0,
    replays: 0,
    storeFailures: 0,
    bugs: 0,
    expired: 0,
    stalls: { server: noStalls(), client: noStalls() },
    appendSeconds: new Tally(SECONDS_BOUNDS),
    appendBytes: new Tally(BYTES_BOUNDS),
  };
}

/** Counts a frame that is neither event nor heartbeat: those are counted where they are committed. */
export function countFrame(counters: ServerCounters, frame: ServerFrame): void {
  switch (frame.kind) {
    case "ack":
      counters.acks++;
      return;
    case "error":
      countRefusal(counters, frame.code);
      return;
    case "welcome":
      if (frame.degraded) counters.degraded++;
      else if (frame.resumed) counters.resumed++;
      else counters.opened++;
      return;
    default:
      return;
  }
}

function noRefusals(): Record<WireCode, number> {
  return {
    invalid_frame: 0,
    too_large: 0,
    not_found: 0,
    stream_ended: 0,
    stream_failed: 0,
    seqno_conflict: 0,
    fenced: 0,
    unsupported_version: 0,
    seqno_gap: 0,
    event_gap: 0,
    connection_lost: 0,
    stream_gone: 0,
    events_gone: 0,
    event_ahead: 0,
    overloaded: 0,
    unavailable: 0,
    internal: 0,
    unauthenticated: 0,
  };
}

export function countRefusal({ refusals }: ServerCounters, error: ErrorCode): void {
  refusals[wireCodeOf(error)]++;
}
