/**
 * About how old a row is. It samples the last row and the time of its record at intervals.
 *
 * Filled by durable records only, so a restart knows it again. One entry in a while is enough: no caller
 * needs to know it to the second.
 */
const INTERVAL_MS = 10_000;
/** A day's worth; what is older than the oldest entry counts as unknown. */
const ENTRIES_MAX = 8_640;

interface Age {
  readonly row: number;
  readonly timeMs: number;
}

export function rowAges() {
  let ages: Age[] = [];

  return {
    add(row: number, timeMs: number): void {
      const last = ages.at(-1);
      // A clock that was set back tells nothing until it has caught up.
      if (last !== undefined && timeMs < last.timeMs + INTERVAL_MS) return;
      ages.push({ row, timeMs });
      if (ages.length > ENTRIES_MAX * 2) ages = ages.slice(-ENTRIES_MAX);
    },
    /** The last row known to have been written before `timeMs`; 0 when there is none. */
    lastBefore(timeMs: number): number {
      return ages.findLast((age) => age.timeMs < timeMs)?.row ?? 0;
    },
  };
}
