/**
 * The streams that this client writes to, or is about to: one writer per stream, from before its journal is looked at until
 * the journal is quiet. Two writers would share it.
 *
 * Within the client a set decides; between processes or tabs the locks decide.
 */
import type { WriterLocks } from "./writer-locks.ts";

export class WriterClaims {
  readonly #locks: WriterLocks | undefined;
  /** How to give the lock of each back. */
  readonly #releases = new Map<string, () => void>();

  constructor(locks: WriterLocks | undefined) {
    this.#locks = locks;
  }

  has(idempotencyKey: string): boolean {
    return this.#releases.has(idempotencyKey);
  }

  /** Who writes to the stream already; undefined when this client may now. */
  async claim(idempotencyKey: string): Promise<string | undefined> {
    if (this.has(idempotencyKey)) return "this client";
    this.#releases.set(idempotencyKey, () => undefined);
    if (this.#locks === undefined) return undefined;
    try {
      const lock = await this.#locks.acquire(idempotencyKey);
      if (lock.kind === "acquired") {
        this.#releases.set(idempotencyKey, lock.release);
        return undefined;
      }
      this.#releases.delete(idempotencyKey);
      return lock.holder;
    } catch (cause) {
      this.#releases.delete(idempotencyKey);
      throw cause;
    }
  }

  release(idempotencyKey: string): void {
    const release = this.#releases.get(idempotencyKey);
    this.#releases.delete(idempotencyKey);
    release?.();
  }
}
