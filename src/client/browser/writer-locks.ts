/**
 * One writer among the tabs of an origin: a Web Lock per stream. The browser gives it back when a tab is
 * closed, crashes or is killed.
 */
import type { WriterLock, WriterLocks } from "../writer-locks.ts";
import type { Locks } from "./platform.ts";

const HELD = { kind: "held", holder: "another tab" } as const;

export class WebWriterLocks implements WriterLocks {
  readonly #locks: Locks;
  readonly #scope: string;
  /** What `reserve` has waited for and nobody has taken yet. */
  readonly #reserved = new Map<string, () => void>();

  constructor(locks: Locks, scope: string) {
    this.#locks = locks;
    this.#scope = scope;
  }

  async acquire(idempotencyKey: string): Promise<WriterLock> {
    const reserved = this.#reserved.get(idempotencyKey);
    this.#reserved.delete(idempotencyKey);
    // What is reserved while the browser is asked belongs to whoever reserved it.
    const release = reserved ?? (await this.#request(idempotencyKey, { ifAvailable: true }));
    return release === undefined ? HELD : { kind: "acquired", release };
  }

  /** Waits until this tab has the lock; the next `acquire` gets it. False when the signal came first. */
  async reserve(idempotencyKey: string, signal: AbortSignal): Promise<boolean> {
    try {
      const release = await this.#request(idempotencyKey, { signal });
      if (release === undefined) return false;
      this.#reserved.set(idempotencyKey, release);
      return true;
    } catch (cause) {
      if (signal.aborted) return false;
      throw cause;
    }
  }

  /** Gives back what was reserved and not taken. */
  cancel(idempotencyKey: string): void {
    this.#reserved.get(idempotencyKey)?.();
    this.#reserved.delete(idempotencyKey);
  }

  #request(
    idempotencyKey: string,
    options: { readonly ifAvailable?: boolean; readonly signal?: AbortSignal },
  ): Promise<(() => void) | undefined> {
    const name = `${this.#scope}/writer/${idempotencyKey}`;
    return new Promise((resolve, reject) => {
      const held = (lock: object | null): Promise<void> | undefined => {
        if (lock === null) {
          resolve(undefined);
          return undefined;
        }
        const released = Promise.withResolvers<void>();
        resolve(() => released.resolve());
        return released.promise;
      };
      this.#locks.request(name, options, held).catch(reject);
    });
  }
}
