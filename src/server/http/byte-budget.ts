/**
 * How much memory blobs may take while they pass through (F2).
 *
 * A blob is checked and sealed as a whole, so it lies in memory as a whole. A request that brings or fetches one
 * reserves its size first, and waits in line for it: the sender is slowed down, nothing is refused until the line itself is
 * too long. No principal may hold more than half of the memory or of the line, so that one with a slow line does not stop all others.
 */
import { HoldfastError } from "../../protocol/errors.ts";

interface Waiting {
  readonly who: string;
  readonly bytes: number;
  readonly grant: () => void;
}

interface Reservation {
  /** Gives back what turned out not to be needed. */
  shrinkTo(bytes: number): void;
  release(): void;
}

export type ByteBudget = ReturnType<typeof byteBudget>;

/** A single reservation must not be larger than half of `bytesMax`. */
export function byteBudget(bytesMax: number, waitingMax: number) {
  const held = new Map<string, number>();
  let heldBytes = 0;
  let waiting: Waiting[] = [];

  function reservation(who: string, bytes: number): Reservation {
    let reserved = bytes;
    const shrinkTo = (left: number): void => {
      if (left >= reserved) return;
      change(who, left - reserved);
      reserved = left;
      serve();
    };
    return { shrinkTo, release: () => shrinkTo(0) };
  }

  function change(who: string, bytes: number): void {
    heldBytes += bytes;
    const own = (held.get(who) ?? 0) + bytes;
    if (own === 0) held.delete(who);
    else held.set(who, own);
  }

  /** First come, first served; only requests that wait for their own share are passed over. */
  function serve(): void {
    const left: Waiting[] = [];
    let isFull = false;
    for (const one of waiting) {
      const isOverShare = (held.get(one.who) ?? 0) + one.bytes > bytesMax / 2;
      isFull ||= !isOverShare && heldBytes + one.bytes > bytesMax;
      if (isFull || isOverShare) left.push(one);
      else one.grant();
    }
    waiting = left;
  }

  return {
    get heldBytes(): number {
      return heldBytes;
    },
    /** Rejects with `overloaded` when too many wait already. */
    reserve(who: string, bytes: number): Promise<Reservation> {
      const own = waiting.filter((one) => one.who === who).length;
      if (waiting.length >= waitingMax || own >= waitingMax / 2) {
        const message = "too many blobs are under way; retry";
        return Promise.reject(new HoldfastError("overloaded", message, { retryAfterMs: 1_000 }));
      }
      const { promise, resolve } = Promise.withResolvers<Reservation>();
      const grant = (): void => {
        change(who, bytes);
        resolve(reservation(who, bytes));
      };
      waiting.push({ who, bytes, grant });
      serve();
      return promise;
    },
  };
}
