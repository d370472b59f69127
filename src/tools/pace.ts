/**
 * How long work over many files may take, and that it lets others run meanwhile.
 *
 * Descriptor calls are synchronous and short; a walk over thousands of them must still let the stream's heartbeats
 * out, stop when the turn is stopped, and end.
 */
import { setImmediate } from "node:timers/promises";
import { fault, throwIfAborted } from "./faults.ts";

/** A walk and a search of a large repository take a few seconds. */
export const SEARCH_MS_MAX = 30_000;
const TURN_MS = 10;

export type Pace = ReturnType<typeof newPace>;

export function newPace(signal: AbortSignal) {
  const deadline = performance.now() + SEARCH_MS_MAX;
  let turnEnds = performance.now() + TURN_MS;

  const msLeft = (): number => Math.max(0, deadline - performance.now());

  return {
    msLeft,
    /** Between two small steps. */
    async next(): Promise<void> {
      if (performance.now() < turnEnds) return;
      await setImmediate();
      throwIfAborted(signal);
      if (msLeft() === 0) throw tookTooLong();
      turnEnds = performance.now() + TURN_MS;
    },
  };
}

export function tookTooLong(): Error {
  const message = `stopped after ${SEARCH_MS_MAX / 1000} seconds; search a smaller part, or use a simpler pattern`;
  return fault("ETIMEDOUT", message, { timeoutMs: SEARCH_MS_MAX });
}
