/**
 * One writer among the tabs of an origin: a Web Lock per stream. The browser gives it back when a tab is
 * closed, crashes or is killed.
 */
import type { WriterLock } from "../writer-locks.ts";
import type { Locks } from "./platform.ts";

const HELD = { kind: "held", holder: "another tab" } as const;

export type WebWriterLocks = ReturnType<typeof webWriterLocks>;

export function webWriterLocks(locks: Locks, scope: string) {
  /** What `reserve` has waited for and no `acquire` has taken yet. */
  const reserved = new Map<string, () => void>();

  function request(
    idempotencyKey: string,
    options: { readonly ifAvailable?: boolean; readonly signal?: AbortSignal },
  ): Promise<(() => void) | undefined> {
    const name = `${scope}/writer/${idempotencyKey}`;
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
      locks.request(name, options, held).catch(reject);
    });
  }

  return {
    async acquire(idempotencyKey: string): Promise<WriterLock> {
      const own = reserved.get(idempotencyKey);
      reserved.delete(idempotencyKey);
      // What is reserved while the browser is asked belongs to the caller that reserved it.
      const release = own ?? (await request(idempotencyKey, { ifAvailable: true }));
      return release === undefined ? HELD : { kind: "acquired", release };
    },
    /** Waits until this tab has the lock; the next `acquire` gets it. False when the signal came first. */
    async reserve(idempotencyKey: string, signal: AbortSignal): Promise<boolean> {
      try {
        const release = await request(idempotencyKey, { signal });
        if (release === undefined) return false;
        reserved.set(idempotencyKey, release);
        return true;
      } catch (cause) {
        if (signal.aborted) return false;
        throw cause;
      }
    },
    /** Gives back what was reserved and not taken. */
    cancel(idempotencyKey: string): void {
      reserved.get(idempotencyKey)?.();
      reserved.delete(idempotencyKey);
    },
  };
}
