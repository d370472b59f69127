/**
 * How much memory the bodies of appends may take while they come in (F2).
 *
 * One body is bounded, but a client may send thousands at the same time and finish none. No principal may have more than half.
 */
import { HoldfastError } from "../../protocol/errors.ts";

/** Sixteen of the largest appends for each of two principals; an ordinary one has a few hundred bytes. */
export const BODY_BYTES_MAX = 256 * 1024 * 1024;

export type BodyBudget = ReturnType<typeof bodyBudget>;

export function bodyBudget(bytesMax: number) {
  const held = new Map<string, number>();
  let heldBytes = 0;

  return {
    /** Throws `overloaded` when there is no room. */
    take(principal: string, bytes: number): void {
      const own = (held.get(principal) ?? 0) + bytes;
      if (own > bytesMax / 2 || heldBytes + bytes > bytesMax) {
        const message = "too many large appends are under way; retry";
        throw new HoldfastError("overloaded", message, { retryAfterMs: 1_000 });
      }
      heldBytes += bytes;
      held.set(principal, own);
    },
    giveBack(principal: string, bytes: number): void {
      heldBytes -= bytes;
      const own = (held.get(principal) ?? 0) - bytes;
      if (own === 0) held.delete(principal);
      else held.set(principal, own);
    },
  };
}
