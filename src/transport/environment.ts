/**
 * What drivers need from the world besides the network and the disk: time, timers, randomness.
 *
 * Handed in, so that the simulator can run the production drivers on a virtual clock and replay a
 * seed to the identical trace.
 */
export interface Environment {
  /** Milliseconds since the epoch, by this process's own clock. */
  now(): number;
  /** Calls `run` once after `delayMs`; returns how to cancel it. */
  after(delayMs: number, run: () => void): () => void;
  /** At least 0 and below 1; spreads retries. Not for secrets. */
  random(): number;
  /** For ids and secrets. */
  randomBytes(length: number): Uint8Array;
}

/** The real world, in Node and in browsers alike. */
export function systemEnvironment(): Environment {
  return {
    now: () => Date.now(),
    after(delayMs, run) {
      const timer = setTimeout(run, delayMs);
      return () => clearTimeout(timer);
    },
    random: () => Math.random(),
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
  };
}
