/**
 * How much memory the bodies of appends may take while they come in (F2).
 *
 * One body is bounded, but a client may send thousands at the same time and finish none. No principal may have more than half.
 */
import { HoldfastError } from "../../protocol/errors.ts";

/** Sixteen of the largest appends for each of two principals; an ordinary one has a few hundred bytes. */
export const BODY_BYTES_MAX = 256 * 1024 * 1024;

export class BodyBudget {
  readonly #bytesMax: number;
  readonly #held = new Map<string, number>();
  #heldBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Throws `overloaded` when there is no room. */
  take(principal: string, bytes: number): void {
    const own = (this.#held.get(principal) ?? 0) + bytes;
    if (own > this.#bytesMax / 2 || this.#heldBytes + bytes > this.#bytesMax) {
      const message = "too many large appends are under way; retry";
      throw new HoldfastError("overloaded", message, { retryAfterMs: 1_000 });
    }
    this.#heldBytes += bytes;
    this.#held.set(principal, own);
  }

  giveBack(principal: string, bytes: number): void {
    this.#heldBytes -= bytes;
    const own = (this.#held.get(principal) ?? 0) - bytes;
    if (own === 0) this.#held.delete(principal);
    else this.#held.set(principal, own);
  }
}
