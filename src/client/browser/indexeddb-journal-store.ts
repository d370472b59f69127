/**
 * Journals in IndexedDB.
 *
 * A journal is a head, which says how many records there are, and the records under dense places. An
 * append reads the head, adds records behind it and moves it, in one strictly durable transaction; a
 * place that is taken is never written over. Reading compares the two: what is missing or is not bytes
 * makes the whole journal unreadable, never shorter.
 *
 * What the bytes say is protected by their seal (`journal-file.ts`): a changed record does not open.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { JournalStore } from "../journal-store.ts";
import { type BrowserDatabase, JOURNALS, outcome, RECORDS } from "./database.ts";
import type { KeyRange, KeyRanges, ObjectStore, Transaction } from "./platform.ts";

export function indexedDbJournalStore(database: BrowserDatabase, keyRanges: KeyRanges): JournalStore {
  const recordsOf = (idempotencyKey: string): KeyRange =>
    keyRanges.bound([idempotencyKey, 0], [idempotencyKey, Infinity]);

  return {
    list: () =>
      database.read(async (transaction) => {
        const names = await outcome(transaction.objectStore(JOURNALS).getAllKeys());
        return names.filter((name) => typeof name === "string");
      }),

    read: (idempotencyKey) =>
      database.read(async (transaction) => {
        const range = recordsOf(idempotencyKey);
        const records = transaction.objectStore(RECORDS);
        const [length, places, values] = await Promise.all([
          lengthOf(transaction, idempotencyKey),
          outcome(records.getAllKeys(range)),
          outcome(records.getAll(range)),
        ]);
        if (places.length !== length || !places.every(isPlace)) throw damaged("records are missing");
        return values.map(bytesOf);
      }),

    append(idempotencyKey, records) {
      // Copied now: the caller's bytes are its own again when this returns.
      const added = records.map((record) => record.slice());
      return database.change(async (transaction) => {
        const length = await lengthOf(transaction, idempotencyKey);
        write(transaction, idempotencyKey, length, added);
      });
    },

    replace(idempotencyKey, records) {
      const added = records.map((record) => record.slice());
      return database.change(async (transaction) => {
        erase(transaction, idempotencyKey, recordsOf(idempotencyKey));
        write(transaction, idempotencyKey, 0, added);
      });
    },

    remove: (idempotencyKey) =>
      database.change(async (transaction) => erase(transaction, idempotencyKey, recordsOf(idempotencyKey))),
  };
}

async function lengthOf(transaction: Transaction, idempotencyKey: string): Promise<number> {
  const head = await outcome(transaction.objectStore(JOURNALS).get(idempotencyKey));
  if (head === undefined) return 0;
  if (typeof head !== "number" || !Number.isSafeInteger(head) || head < 1) throw damaged("it has no length");
  return head;
}

/** A request that fails aborts its transaction, and that is where it is heard of. */
function write(
  transaction: Transaction,
  idempotencyKey: string,
  first: number,
  records: readonly Uint8Array[],
): void {
  if (records.length === 0) return;
  const store: ObjectStore = transaction.objectStore(RECORDS);
  for (const [at, record] of records.entries()) store.add(record, [idempotencyKey, first + at]);
  transaction.objectStore(JOURNALS).put(first + records.length, idempotencyKey);
}

function erase(transaction: Transaction, idempotencyKey: string, range: KeyRange): void {
  transaction.objectStore(RECORDS).delete(range);
  transaction.objectStore(JOURNALS).delete(idempotencyKey);
}

/** Keys are read in order, so the last one being right would not do: each is at its place. */
function isPlace(key: unknown, at: number): boolean {
  return Array.isArray(key) && key[1] === at;
}

function bytesOf(value: unknown): Uint8Array {
  if (!(value instanceof Uint8Array)) throw damaged("a record is not bytes");
  return value;
}

function damaged(what: string): HoldfastError {
  return new HoldfastError("stream_failed", `this journal is damaged: ${what}`);
}
