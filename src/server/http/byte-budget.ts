/**
 * How much memory blobs may take while they pass through (F2).
 *
 * A blob is checked and sealed as a whole, so it lies in memory as a whole. Whoever wants to bring or fetch one
 * reserves its size first, and waits in line for it: the sender is slowed down, nothing is refused until the line itself is
 * too long. No principal may hold more than half of the memory or of the line, so that one with a slow line does not stop all others.
 */
import { HoldfastError } from "../../protocol/errors.ts";

interface Waiting {
  readonly who: string;
  readonly bytes: number;
  readonly grant: () => void;
}

export interface Reservation {
  /** Gives back what turned out not to be needed. */
  shrinkTo(bytes: number): void;
  release(): void;
}

export class ByteBudget {
  readonly #bytesMax: number;
  readonly #waitingMax: number;
  readonly #held = new Map<string, number>();
  #heldBytes = 0;
  #waiting: Waiting[] = [];

  /** A single reservation must not be larger than half of `bytesMax`. */
  constructor(bytesMax: number, waitingMax: number) {
    this.#bytesMax = bytesMax;
    this.#waitingMax = waitingMax;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Rejects with `overloaded` when too many wait already. */
  reserve(who: string, bytes: number): Promise<Reservation> {
    const own = this.#waiting.filter((one) => one.who === who).length;
    if (this.#waiting.length >= this.#waitingMax || own >= this.#waitingMax / 2) {
      const message = "too many blobs are under way; retry";
      return Promise.reject(new HoldfastError("overloaded", message, { retryAfterMs: 1_000 }));
    }
    const { promise, resolve } = Promise.withResolvers<Reservation>();
    const grant = (): void => {
      this.#change(who, bytes);
      resolve(this.#reservation(who, bytes));
    };
    this.#waiting.push({ who, bytes, grant });
    this.#serve();
    return promise;
  }

  #reservation(who: string, bytes: number): Reservation {
    let held = bytes;
    const shrinkTo = (left: number): void => {
      if (left >= held) return;
      this.#change(who, left - held);
      held = left;
      this.#serve();
    };
    return { shrinkTo, release: () => shrinkTo(0) };
  }

  #change(who: string, bytes: number): void {
    this.#heldBytes += bytes;
    const own = (this.#held.get(who) ?? 0) + bytes;
    if (own === 0) this.#held.delete(who);
    else this.#held.set(who, own);
  }

  /** First come, first served; only those who wait for their own share are passed over. */
  #serve(): void {
    const left: Waiting[] = [];
    let isFull = false;
    for (const one of this.#waiting) {
      const isOverShare = (this.#held.get(one.who) ?? 0) + one.bytes > this.#bytesMax / 2;
      isFull ||= !isOverShare && this.#heldBytes + one.bytes > this.#bytesMax;
      if (isFull || isOverShare) left.push(one);
      else one.grant();
    }
    this.#waiting = left;
  }
}
