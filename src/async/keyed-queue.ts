/**
 * Runs work one piece after the other for each key; pieces of different keys run at the same time.
 *
 * A piece that fails rejects for its own caller and does not stop the ones behind it. A key without work takes up no memory.
 */
export class KeyedQueue {
  /** In boxes, which are emptied: tables that the map had before would keep what came of the work (decision 240). */
  readonly #last = new Map<string, { turn: Promise<unknown> | undefined }>();

  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(key)?.turn;
    const turn = before === undefined ? work() : before.then(work, work);
    const box: { turn: Promise<unknown> | undefined } = { turn };
    this.#last.set(key, box);
    try {
      return await turn;
    } finally {
      box.turn = undefined;
      if (this.#last.get(key) === box) this.#last.delete(key);
    }
  }

  /** Whether work of this key runs or waits. */
  has(key: string): boolean {
    return this.#last.has(key);
  }

  /** Resolves when everything that is queued now has ended, in whatever way. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#last.values()].flatMap(({ turn }) => turn ?? []));
  }
}
