/**
 * The clock and the timers by which a provider is judged. Handed in, so that the simulator runs the production reader in its own time.
 */
export interface Time {
  /** Milliseconds since some moment; never set, never goes back. */
  monotonic(): number;
  /** Calls `run` once after `delayMs`; returns how to cancel it. */
  after(delayMs: number, run: () => void): () => void;
}

export const SYSTEM_TIME: Time = {
  monotonic: () => performance.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};
