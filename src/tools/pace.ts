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

export class Pace {
  readonly #signal: AbortSignal;
  readonly #deadline = performance.now() + SEARCH_MS_MAX;
  #turnEnds = performance.now() + TURN_MS;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  get msLeft(): number {
    return Math.max(0, this.#deadline - performance.now());
  }

  /** Between two small steps. */
  async next(): Promise<void> {
    if (performance.now() < this.#turnEnds) return;
    await setImmediate();
    throwIfAborted(this.#signal);
    if (this.msLeft === 0) throw tookTooLong();
    this.#turnEnds = performance.now() + TURN_MS;
  }
}

export function tookTooLong(): Error {
  const message = `stopped after ${SEARCH_MS_MAX / 1000} seconds; search a smaller part, or use a simpler pattern`;
  return fault("ETIMEDOUT", message, { timeoutMs: SEARCH_MS_MAX });
}
