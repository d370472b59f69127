/**
 * A client's conversations and blobs on a simulated disk: what was reported as kept survives every crash, what was
 * not may be there or not.
 *
 * Each blob and each record is a file of its own, replaced as a whole.
 */
import { checkBlob, checkedBlob, type ClientBlobStore } from "../../src/client/agent/blob-store.ts";
import { decodeRecord, encodeRecord } from "../../src/client/agent/conversation-record.ts";
import {
  changedElsewhere,
  type ConversationRecord,
  type ConversationStore,
} from "../../src/client/agent/conversation-store.ts";
import type { SimDisk, SimProcess } from "./world/index.ts";

export function simulatedBlobs(disk: SimDisk, process: SimProcess): ClientBlobStore {
  const files = disk.openJournalStore(process);
  return {
    get: async (id) => {
      const [bytes] = await files.read(id);
      return bytes === undefined ? undefined : checkedBlob(id, bytes);
    },
    put: async (id, bytes) => {
      checkBlob(id, bytes);
      await files.replace(id, [bytes]);
    },
    async *list() {
      for (const id of await files.list()) yield { id, storedMs: 0 };
    },
    delete: async (id) => {
      await files.remove(id);
      return true;
    },
  };
}

export function simulatedRecords(disk: SimDisk, process: SimProcess): ConversationStore {
  const files = disk.openJournalStore(process);
  const get = async (id: string): Promise<ConversationRecord | undefined> => {
    const [bytes] = await files.read(id);
    return bytes === undefined ? undefined : decodeRecord(bytes);
  };
  return {
    get,
    put: async (record) => {
      const { conversationId, version } = record;
      if (((await get(conversationId))?.version ?? 0) !== version) throw changedElsewhere(conversationId);
      const stored = { ...record, version: version + 1 };
      await files.replace(conversationId, [encodeRecord(stored)]);
      return stored;
    },
    list: async () => {
      const records = await Promise.all((await files.list()).map(get));
      return records.filter((record) => record !== undefined);
    },
    remove: (conversationId) => files.remove(conversationId),
  };
}
