/**
 * Small tables over the database's thread. The caller's mistakes are found here, before anything is sent: a
 * batch that the database cannot hold must not spoil the transaction that it would share.
 */
import type { TableStore, TableWrite } from "../table-store.ts";
import { assertBatch, assertKey, byBatchesOfOne } from "../table-store.ts";
import type { Thread } from "./thread.ts";

export function sqliteTables(thread: Thread, now: () => number): TableStore {
  const batch: TableStore["batch"] = async (writes) => {
    assertBatch(writes);
    return thread.call("batch", { writes: writes.map(plain), nowMs: now() });
  };
  return {
    durability: "fsync",
    batch,
    ...byBatchesOfOne(batch),
    get: ({ table, key }) => thread.call("getRow", { table, key, nowMs: now() }),
    async delete({ table, key }) {
      assertKey(table);
      assertKey(key);
      return thread.call("deleteRow", { table, key, nowMs: now() });
    },
    list: (table, prefix, { after, countMax }) =>
      thread.call("listRows", { table, prefix, page: { after, countMax }, nowMs: now() }),
    sweep: (countMax) => thread.call("sweep", { countMax, nowMs: now() }),
    close: () => thread.close(),
  };
}

/** Only what belongs to a write: the port copies every property, the whole memory that a view looks into, and refuses functions. */
function plain(write: TableWrite): TableWrite {
  const { table, key, expectedVersion } = write;
  if (write.kind === "delete") return { kind: "delete", table, key, expectedVersion };
  return { kind: "put", table, key, expectedVersion, value: new Uint8Array(write.value), ttlMs: write.ttlMs };
}
