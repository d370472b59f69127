/**
 * Where the journals of one client lie: in the store that it was given, or in memory while `persistence` is off.
 *
 * The switch counts when a journal begins. A journal never moves: a stream is resumed from the place where it began.
 */
import type { JournalStore } from "./journal-store.ts";
import { memoryJournalStore } from "./memory-journal-store.ts";

export function journalPlaces(given: JournalStore | undefined, forgetsEnded = false) {
  const memory = memoryJournalStore();

  return {
    /** The place of a journal that begins now. */
    forNew(persistence: boolean): JournalStore {
      return persistence && given !== undefined ? given : memory;
    },
    /** The place of a journal that is there; where there is none, the given store says so. */
    async of(idempotencyKey: string): Promise<JournalStore> {
      const isInMemory = (await memory.list()).includes(idempotencyKey);
      return isInMemory || given === undefined ? memory : given;
    },
    async list(): Promise<readonly string[]> {
      return [...((await given?.list()) ?? []), ...(await memory.list())];
    },
    /** Its stream has ended: a journal in memory goes. One in the given store stays where the next start is to learn from it how the stream ended. */
    async ended(idempotencyKey: string): Promise<void> {
      await memory.remove(idempotencyKey);
      if (forgetsEnded) await given?.remove(idempotencyKey);
    },
  };
}
