/**
 * Who wants to know that a stream changed.
 *
 * A wake-up is a hint to look again, never the news itself, so it may come once too often but never
 * too rarely, and it carries nothing. A watcher that throws is a bug of its owner: it is reported as
 * an uncaught error and disturbs neither the store nor the other watchers.
 */
export function watchersOf() {
  const byKey = new Map<string, Set<() => void>>();

  function wake(keys: Iterable<string>): void {
    if (byKey.size === 0) return;
    for (const key of keys) {
      // A copy: a watcher may stop, or begin to watch, while it is called.
      const watching = Array.from(byKey.get(key) ?? []);
      for (const wake of watching) callApart(wake);
    }
  }

  return {
    add(key: string, wake: () => void): () => void {
      // Wrapped, so that the same function watching twice is two watchers.
      const own = (): void => wake();
      const watching = byKey.get(key) ?? new Set();
      watching.add(own);
      byKey.set(key, watching);
      return () => {
        watching.delete(own);
        if (watching.size === 0 && byKey.get(key) === watching) byKey.delete(key);
      };
    },
    wake,
    wakeAll(): void {
      wake([...byKey.keys()]);
    },
    clear(): void {
      byKey.clear();
    },
  };
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
