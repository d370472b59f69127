/**
 * How long a stream stays, judged by the server's clock alone (D7).
 *
 * A stream goes when nothing happened for the retention time and no writer is attached; what stays
 * is a tombstone, so that a late client hears "gone" and never gets a new stream by mistake (A7).
 */
export interface Options {
  /** As long as a client looks back by default: long enough for a closed laptop over lunch. */
  readonly retentionMs: number;
  /** How long a tombstone answers `stream_gone`. */
  readonly tombstoneMs: number;
}

export const DEFAULTS: Options = { retentionMs: 7_200_000, tombstoneMs: 30 * 86_400_000 };

export function isExpired(options: Options, activityMs: number, hasWriter: boolean, nowMs: number): boolean {
  return !hasWriter && nowMs - activityMs > options.retentionMs;
}

export function retentionLeftMs(options: Options, activityMs: number, nowMs: number): number {
  return Math.max(0, activityMs + options.retentionMs - nowMs);
}
