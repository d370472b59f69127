/**
 * Wakes everything that waits for a condition, whenever something may have changed.
 *
 * A waiter names the condition; who changes the state calls `notify`. No change is missed: the condition is looked at before each wait.
 */
export class ChangeSignal {
  #next = Promise.withResolvers<void>();

  notify(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers<void>();
    resolve();
  }

  /** Resolves when the condition holds, or when the signal is aborted. */
  async until(isSo: () => boolean, signal?: AbortSignal): Promise<void> {
    const wake = (): void => this.notify();
    const isOver = (): boolean => isSo() || signal?.aborted === true;
    signal?.addEventListener("abort", wake);
    try {
      while (!isOver()) await this.#next.promise;
    } finally {
      signal?.removeEventListener("abort", wake);
    }
  }
}
