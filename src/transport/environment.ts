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

/**
 * Time that never goes back, over a wall clock that may.
 *
 * Machines measure spans: a clock set back by an hour must not stop a stall clock for an hour. When a
 * timer is due, its moment has come, whatever the wall says.
 */
export class SteadyClock {
  readonly #environment: Environment;
  #reachedMs: number;

  constructor(environment: Environment) {
    this.#environment = environment;
    this.#reachedMs = environment.now();
  }

  now(): number {
    this.#reachedMs = Math.max(this.#reachedMs, this.#environment.now());
    return this.#reachedMs;
  }

  after(delayMs: number, run: () => void): () => void {
    const dueMs = this.now() + delayMs;
    return this.#environment.after(delayMs, () => {
      this.#reachedMs = Math.max(this.#reachedMs, dueMs);
      run();
    });
  }
}
