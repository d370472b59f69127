/**
 * Journals in memory: persistence switched off, and tests.
 *
 * A real `JournalStore` that keeps every promise except surviving its process. Records are copied on
 * the way in and out, as a disk would, so that no caller shares bytes with a journal by accident.
 *
 * Invariant: a journal without records does not exist.
 */
import type { JournalStore } from "./journal-store.ts";

export function memoryJournalStore(): JournalStore {
  const journals = new Map<string, Uint8Array[]>();

  return {
    list: () => Promise.resolve([...journals.keys()]),
    read: (idempotencyKey) => Promise.resolve(copies(journals.get(idempotencyKey) ?? [])),
    append(idempotencyKey, records) {
      const journal = journals.get(idempotencyKey);
      if (journal !== undefined) journal.push(...copies(records));
      else if (records.length > 0) journals.set(idempotencyKey, copies(records));
      return Promise.resolve();
    },
    replace(idempotencyKey, records) {
      if (records.length > 0) journals.set(idempotencyKey, copies(records));
      else journals.delete(idempotencyKey);
      return Promise.resolve();
    },
    remove(idempotencyKey) {
      journals.delete(idempotencyKey);
      return Promise.resolve();
    },
  };
}

function copies(records: readonly Uint8Array[]): Uint8Array[] {
  return records.map((record) => record.slice());
}
