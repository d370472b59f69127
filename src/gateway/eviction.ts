/**
 * Which sessions that wait for tool results are ended to make room for another one. Pure. That a session waits at all, `session.ts` decides.
 *
 * Waiting costs no tokens but memory: the turn's history is held, and the stream's window. So the bound is bytes and not a number, and a
 * team behind one API key has room for as many small turns as it likes. One principal has half of it at most: it ends no
 * sessions of others. Those that have waited longest go first; their clients get a fresh stream at their next request.
 *
 * Invariant: with the newcomer, what waits is within its bounds, unless all that is left is about to continue.
 */
import type { SessionRecord } from "./session-record.ts";

export interface Parked {
  readonly principal: string;
  readonly sinceMs: number;
  readonly bytes: number;
  /** Not while its results are on their way in. */
  readonly canGo: boolean;
}

interface Newcomer extends Pick<Parked, "principal" | "bytes"> {
  /** How many sessions of its principal may wait, if its API key says so. */
  readonly countMax: number | undefined;
  /** Of one that is read back: those that have waited for less time are not too many because of it. */
  readonly sinceMs?: number | undefined;
}

/** What a session costs beside its history: two ends of a stream, a turn, the rows in memory. Measured, and rounded up. */
const SESSION_BYTES = 64 * 1024;
/** Of the history's JSON, as text and as the messages that are made of it. */
const COPIES = 2;

/** What is left of one that rests: its record. */
const RESTING_BYTES = 16 * 1024;

export function parkedBytes(historyBytes: number, isResting = false): number {
  return isResting ? RESTING_BYTES : SESSION_BYTES + COPIES * historyBytes;
}

/** `isBack`: it has waited before. */
export function newcomerOf(
  { principal, historyBytes, parkedMax, updatedMs }: SessionRecord,
  isBack: boolean,
): Newcomer {
  const sinceMs = isBack ? updatedMs : undefined;
  return { principal, bytes: parkedBytes(historyBytes), countMax: parkedMax, sinceMs };
}

/** `newcomer`: a session that is about to wait, and is not counted among the waiting ones. */
export function crowdedOut<One extends Parked>(
  waiting: readonly One[],
  newcomer: Newcomer | undefined,
  bytesMax: number,
): ReadonlySet<One> {
  const gone = new Set<One>();
  const byAge = waiting.toSorted((a, b) => a.sinceMs - b.sinceMs);
  const clear = (
    crowd: readonly One[],
    isCrowded: (count: number, bytes: number, one: One) => boolean,
  ): void => {
    let count = crowd.length + (newcomer === undefined ? 0 : 1);
    let bytes = crowd.reduce((sum, one) => sum + one.bytes, newcomer?.bytes ?? 0);
    for (const one of crowd) {
      if (!isCrowded(count, bytes, one)) return;
      if (!one.canGo) continue;
      gone.add(one);
      count--;
      bytes -= one.bytes;
    }
  };
  if (newcomer !== undefined) {
    const { principal, countMax = Infinity, sinceMs = Infinity } = newcomer;
    const own = byAge.filter((one) => one.principal === principal);
    clear(own, (count, bytes, one) => (count > countMax && one.sinceMs <= sinceMs) || bytes > bytesMax / 2);
  }
  const left = byAge.filter((one) => !gone.has(one));
  clear(left, (_, bytes) => bytes > bytesMax);
  return gone;
}
