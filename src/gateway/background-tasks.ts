/**
 * Work that no request waits for. `close` of the gateway waits for its end: after that the disk may be gone.
 */
export class BackgroundTasks {
  readonly #onBug: (bug: unknown) => void;
  readonly #open = new Set<Promise<void>>();

  constructor(onBug: (bug: unknown) => void) {
    this.#onBug = onBug;
  }

  run(work: Promise<unknown>): void {
    const done = work
      .then(() => undefined, this.#onBug)
      .finally(() => {
        this.#open.delete(done);
      });
    this.#open.add(done);
  }

  get isIdle(): boolean {
    return this.#open.size === 0;
  }

  /** Resolves when the tasks that are open now have ended. */
  async done(): Promise<void> {
    await Promise.all(this.#open);
  }
}
