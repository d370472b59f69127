/**
 * Who wants to know that a stream changed.
 *
 * A wake-up is a hint to look again, never the news itself, so it may come once too often but never
 * too rarely, and it carries nothing. A watcher that throws is a bug of its owner: it is reported as
 * an uncaught error and disturbs neither the store nor the other watchers.
 */
export class Watchers {
  readonly #byKey = new Map<string, Set<() => void>>();

  add(key: string, wake: () => void): () => void {
    // Wrapped, so that the same function watching twice is two watchers.
    const own = (): void => wake();
    const watching = this.#byKey.get(key) ?? new Set();
    watching.add(own);
    this.#byKey.set(key, watching);
    return () => {
      watching.delete(own);
      if (watching.size === 0 && this.#byKey.get(key) === watching) this.#byKey.delete(key);
    };
  }

  wake(keys: Iterable<string>): void {
    if (this.#byKey.size === 0) return;
    for (const key of keys) {
      // A copy: a watcher may stop, or begin to watch, while it is called.
      const watching = Array.from(this.#byKey.get(key) ?? []);
      for (const wake of watching) callApart(wake);
    }
  }

  wakeAll(): void {
    this.wake([...this.#byKey.keys()]);
  }

  clear(): void {
    this.#byKey.clear();
  }
}

function callApart(wake: () => void): void {
  try {
    wake();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
