/**
 * One timer that follows what the machine wants: to be woken at a moment, at another one, or not.
 */
import type { SteadyClock } from "../transport/environment.ts";

export class Alarm {
  readonly #clock: SteadyClock;
  readonly #ring: () => void;
  #set: { readonly atMs: number; readonly cancel: () => void } | undefined;

  constructor(clock: SteadyClock, ring: () => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  set(atMs: number | undefined): void {
    if (this.#set?.atMs === atMs) return;
    this.#set?.cancel();
    this.#set = undefined;
    if (atMs === undefined) return;
    const cancel = this.#clock.after(Math.max(0, atMs - this.#clock.now()), () => {
      this.#set = undefined;
      this.#ring();
    });
    this.#set = { atMs, cancel };
  }

  /** For other moments at which something runs: a browser lets the timers of a hidden tab wait for a minute. */
  ringIfDue(): void {
    if (this.#set === undefined || this.#set.atMs > this.#clock.now()) return;
    this.set(undefined);
    this.#ring();
  }
}
