/**
 * Conversations' records as rows of one table, sealed under the home key.
 *
 *     conversations   <id in hexadecimal>   version 8 | sealed record
 *
 * A row is written over only at the version that was read, so several processes can share the table.
 */
import { openRecord, sealRecord } from "../client/agent/conversation-record.ts";
import {
  changedElsewhere,
  type ConversationRecord,
  type ConversationStore,
} from "../client/agent/conversation-store.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import { NO_ROW, rowsOf, type TableKey, type TableRow, type TableStore } from "../store/table-store.ts";

const TABLE = "conversations";
const VERSION_BYTES = 8;

export function tableConversationStore(tables: TableStore, sealer: Sealer): ConversationStore {
  function opened(row: TableRow): Promise<ConversationRecord> {
    const conversationId = Buffer.from(row.key, "hex").toString("utf8");
    const sealed = row.value.subarray(VERSION_BYTES);
    return openRecord(sealer, conversationId, versionOf(row), sealed);
  }

  return {
    async get(conversationId) {
      const row = await tables.get(keyOf(conversationId));
      return row === undefined ? undefined : opened(row);
    },
    async put(record) {
      const { conversationId, version } = record;
      const row = await tables.get(keyOf(conversationId));
      if ((row === undefined ? 0 : versionOf(row)) !== version) throw changedElsewhere(conversationId);
      const stored = { ...record, version: version + 1 };
      const sealed = await sealRecord(sealer, stored);
      const value = Buffer.alloc(VERSION_BYTES + sealed.length);
      value.writeBigUInt64BE(BigInt(stored.version), 0);
      value.set(sealed, VERSION_BYTES);
      const at = keyOf(conversationId);
      const result = await tables.compareAndSwap(at, row?.version ?? NO_ROW, new Uint8Array(value));
      if (result.kind === "conflict") throw changedElsewhere(conversationId);
      return stored;
    },
    list: () => Array.fromAsync(rowsOf(tables, TABLE), opened),
    async remove(conversationId) {
      await tables.delete(keyOf(conversationId));
    },
  };
}

function keyOf(conversationId: string): TableKey {
  return { table: TABLE, key: Buffer.from(conversationId, "utf8").toString("hex") };
}

function versionOf({ value }: TableRow): number {
  if (value.length < VERSION_BYTES) {
    throw new HoldfastError("stream_failed", "a conversation's record is damaged; it is left as it is");
  }
  return Number(Buffer.from(value.buffer, value.byteOffset, value.byteLength).readBigUInt64BE(0));
}
