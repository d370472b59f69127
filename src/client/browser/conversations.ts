/**
 * Conversations' records in IndexedDB, sealed under the home key.
 *
 * A record is written over only by a writer that has seen it as it is: the version is compared and raised in
 * one strictly durable transaction, whichever tab it is from.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Sealer } from "../../sealing/index.ts";
import { openRecord, sealRecord } from "../agent/conversation-record.ts";
import {
  changedElsewhere,
  type ConversationRecord,
  type ConversationStore,
} from "../agent/conversation-store.ts";
import { type BrowserDatabase, CONVERSATIONS, outcome } from "./database.ts";

interface Row {
  readonly version: number;
  readonly sealed: Uint8Array;
}

export function indexedDbConversationStore(database: BrowserDatabase, sealer: Sealer): ConversationStore {
  const read = (conversationId: string): Promise<Row | undefined> =>
    database.read(async (transaction) =>
      rowOf(await outcome(transaction.objectStore(CONVERSATIONS).get(conversationId))),
    );
  const get = async (conversationId: string): Promise<ConversationRecord | undefined> => {
    const row = await read(conversationId);
    return row === undefined ? undefined : openRecord(sealer, conversationId, row.version, row.sealed);
  };
  return {
    get,

    async put(record) {
      const { conversationId, version } = record;
      const stored = { ...record, version: version + 1 };
      const row: Row = { version: stored.version, sealed: await sealRecord(sealer, stored) };
      await database.change(async (transaction) => {
        const store = transaction.objectStore(CONVERSATIONS);
        const found = rowOf(await outcome(store.get(conversationId)));
        if ((found?.version ?? 0) !== version) throw changedElsewhere(conversationId);
        store.put(row, conversationId);
      });
      return stored;
    },

    async list() {
      const ids = await database.read((transaction) =>
        outcome(transaction.objectStore(CONVERSATIONS).getAllKeys()),
      );
      const records: ConversationRecord[] = [];
      for (const id of ids) {
        const record = typeof id === "string" ? await get(id) : undefined;
        if (record !== undefined) records.push(record);
      }
      return records;
    },

    remove: (conversationId) =>
      database.change(async (transaction) => {
        transaction.objectStore(CONVERSATIONS).delete(conversationId);
      }),
  };
}

function rowOf(value: unknown): Row | undefined {
  if (value === undefined) return undefined;
  if (isRow(value)) return value;
  throw new HoldfastError("stream_failed", "a conversation's record is damaged; it is left as it is");
}

function isRow(value: unknown): value is Row {
  return (
    typeof value === "object" &&
    value !== null &&
    "version" in value &&
    typeof value.version === "number" &&
    "sealed" in value &&
    value.sealed instanceof Uint8Array
  );
}
