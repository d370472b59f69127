/**
 * Where the journals of one client lie: in the store that it was given, or in memory while `persistence` is off.
 *
 * The switch counts when a journal begins. A journal never moves: a stream is resumed from the place where it began.
 */
import type { JournalStore } from "./journal-store.ts";
import { memoryJournalStore } from "./memory-journal-store.ts";

export class JournalPlaces {
  readonly #given: JournalStore | undefined;
  readonly #memory = memoryJournalStore();

  constructor(given: JournalStore | undefined) {
    this.#given = given;
  }

  /** The place of a journal that begins now. */
  forNew(persistence: boolean): JournalStore {
    return persistence && this.#given !== undefined ? this.#given : this.#memory;
  }

  /** The place of a journal that is there; where there is none, the given store says so. */
  async of(idempotencyKey: string): Promise<JournalStore> {
    const isInMemory = (await this.#memory.list()).includes(idempotencyKey);
    return isInMemory || this.#given === undefined ? this.#memory : this.#given;
  }

  async list(): Promise<readonly string[]> {
    return [...((await this.#given?.list()) ?? []), ...(await this.#memory.list())];
  }

  /** Removes a journal in memory, whose stream has ended. One in the given store stays: the next start learns from it how the stream ended. */
  async ended(idempotencyKey: string): Promise<void> {
    await this.#memory.remove(idempotencyKey);
  }
}
