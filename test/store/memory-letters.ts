/**
 * Letters in memory, beside any store of streams: the simulator's shared database has them, and tests of several nodes in one process.
 *
 * Hints reach those who listen within the call; whoever wants them late or lost stands between.
 */
import type { StreamName } from "../../src/core/stream-state.ts";
import type { Hint, Letter, Letters } from "../../src/store/letters.ts";
import type { StreamStore } from "../../src/store/stream-store.ts";

export class MemoryLetters implements Letters {
  readonly #letters = new Map<number, Letter & { readonly to: string }>();
  readonly #listeners = new Set<(hint: Hint) => void>();
  #last = 0;

  get size(): number {
    return this.#letters.size;
  }

  /** The same store: letters go with the commit that deals with them, and others hear of what it changes. */
  around(store: StreamStore): StreamStore {
    return {
      ...store,
      commit: async (commit) => {
        const result = await store.commit(commit);
        if (result.kind === "committed")
          for (const number of commit.letters ?? []) this.#letters.delete(number);
        this.#tell(commit.name);
        return result;
      },
      claim: async (name, host) => {
        const result = await store.claim(name, host);
        this.#tell(name);
        return result;
      },
      release: async (name, hostEpoch) => {
        await store.release(name, hostEpoch);
        this.#tell(name);
      },
    };
  }

  async post(letter: Parameters<Letters["post"]>[0]): Promise<void> {
    const number = ++this.#last;
    this.#letters.set(number, { ...letter, number });
    this.#ring({ has: () => false, isFor: (hostId) => hostId === letter.to });
  }

  async read(to: string, countMax: number): Promise<readonly Letter[]> {
    return [...this.#letters.values()].filter((letter) => letter.to === to).slice(0, countMax);
  }

  async discard(numbers: readonly number[]): Promise<void> {
    for (const number of numbers) this.#letters.delete(number);
  }

  listen(hear: (hint: Hint) => void): () => void {
    this.#listeners.add(hear);
    return () => this.#listeners.delete(hear);
  }

  #tell({ principal, idempotencyKey }: StreamName): void {
    const has: Hint["has"] = (name) => name.principal === principal && name.idempotencyKey === idempotencyKey;
    this.#ring({ has, isFor: () => false });
  }

  #ring(hint: Hint): void {
    for (const hear of this.#listeners) hear(hint);
  }
}
