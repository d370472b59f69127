/**
 * What drivers need from the world besides the network and the disk: time, timers, randomness.
 *
 * Handed in, so that the simulator can run the production drivers on a virtual clock and replay a
 * seed to the identical trace.
 */
export interface Environment {
  /** Milliseconds since the epoch, by this process's own clock. */
  now(): number;
  /** Milliseconds since some moment; never set, never goes back. */
  monotonic(): number;
  /** Calls `run` once after `delayMs`; returns how to cancel it. */
  after(delayMs: number, run: () => void): () => void;
  /** Calls `run` behind all promises of this turn of the event loop. Absent: nothing waits for the end of a turn. */
  turnOver?(run: () => void): void;
  /** At least 0 and below 1; spreads retries. Not for secrets. */
  random(): number;
  /** For ids and secrets. */
  randomBytes(length: number): Uint8Array;
}

/** The real world, in Node and in browsers alike. */
export function systemEnvironment(): Environment {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(delayMs, run) {
      const timer = setTimeout(run, delayMs);
      return () => clearTimeout(timer);
    },
    random: () => Math.random(),
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
  };
}

/**
 * Wall time as of the start, and from then on only spans: what machines are given as `nowMs`.
 *
 * A clock set back by an hour must not stop a stall clock for an hour, so spans are the monotonic
 * clock's. But that one stands still while a machine is suspended, and a host that slept must not
 * believe that it still has its lease: where the wall has moved further, the wall counts. One that
 * was merely set forward makes a caller look again early, which is harmless.
 */
export class SteadyClock {
  readonly #environment: Environment;
  #monotonicMs: number;
  #wallMs: number;
  #reachedMs: number;

  constructor(environment: Environment) {
    this.#environment = environment;
    this.#monotonicMs = environment.monotonic();
    this.#wallMs = environment.now();
    this.#reachedMs = this.#wallMs;
  }

  now(): number {
    const monotonicMs = this.#environment.monotonic();
    const wallMs = this.#environment.now();
    this.#reachedMs += Math.max(monotonicMs - this.#monotonicMs, wallMs - this.#wallMs);
    this.#monotonicMs = monotonicMs;
    this.#wallMs = wallMs;
    return Math.round(this.#reachedMs);
  }

  after(delayMs: number, run: () => void): () => void {
    return this.#environment.after(delayMs, run);
  }
}
