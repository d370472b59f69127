/**
 * Wakes everything that waits for a condition, whenever something may have changed.
 *
 * A waiter names the condition; who changes the state calls `notify`. No change is missed: the condition is looked at before each wait.
 */
export class ChangeSignal {
  /** Of those that wait; undefined while none does. */
  #next: PromiseWithResolvers<void> | undefined;

  notify(): void {
    const waiting = this.#next;
    this.#next = undefined;
    waiting?.resolve();
  }

  /** Resolves when the condition holds, or when the signal is aborted. */
  async until(isSo: () => boolean, signal?: AbortSignal): Promise<void> {
    if (isSo()) return;
    const wake = (): void => this.notify();
    const isOver = (): boolean => isSo() || signal?.aborted === true;
    signal?.addEventListener("abort", wake);
    try {
      while (!isOver()) await (this.#next ??= Promise.withResolvers()).promise;
    } finally {
      signal?.removeEventListener("abort", wake);
    }
  }
}
