/**
 * Work that no request waits for: its end is waited for when the gateway closes, because behind that there may be no disk any more.
 */
export class Errands {
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

  /** Of those that there are now. */
  async done(): Promise<void> {
    await Promise.all(this.#open);
  }
}
