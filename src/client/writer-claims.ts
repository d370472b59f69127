/**
 * The streams that this client writes to, or is about to: one writer per stream, from before its journal is looked at until
 * the journal is quiet. Two writers would share it.
 *
 * Within the client a set decides; between processes or tabs the locks decide.
 */
import type { WriterLocks } from "./writer-locks.ts";

export function writerClaims(locks: WriterLocks | undefined) {
  /** How to give the lock of each back. */
  const releases = new Map<string, () => void>();

  function has(idempotencyKey: string): boolean {
    return releases.has(idempotencyKey);
  }

  return {
    has,
    /** Who writes to the stream already; undefined when this client may now. */
    async claim(idempotencyKey: string): Promise<string | undefined> {
      if (has(idempotencyKey)) return "this client";
      releases.set(idempotencyKey, () => undefined);
      if (locks === undefined) return undefined;
      try {
        const lock = await locks.acquire(idempotencyKey);
        if (lock.kind === "acquired") {
          releases.set(idempotencyKey, lock.release);
          return undefined;
        }
        releases.delete(idempotencyKey);
        return lock.holder;
      } catch (cause) {
        releases.delete(idempotencyKey);
        throw cause;
      }
    },
    release(idempotencyKey: string): void {
      const release = releases.get(idempotencyKey);
      releases.delete(idempotencyKey);
      release?.();
    },
  };
}
