/**
 * A client's blobs in IndexedDB, sealed under the home key.
 *
 * What a blob is made of lies in one object store, when it was put in another, so that looking for what
 * nothing names any more reads no bytes. Both change in one strictly durable transaction; sealing comes before
 * it, because a transaction that waits for anything but itself is over.
 */
import type { SealedLabel, Sealer } from "../../sealing/index.ts";
import { checkBlob, checkedBlob, type ClientBlobStore, damagedBlob } from "../agent/blob-store.ts";
import { BLOB_BYTES, BLOBS, type BrowserDatabase, outcome } from "./database.ts";
import type { Transaction } from "./platform.ts";

export function indexedDbBlobStore(
  database: BrowserDatabase,
  sealer: Sealer,
  now: () => number = Date.now,
): ClientBlobStore {
  return {
    async get(id) {
      const sealed = await database.read((transaction) =>
        outcome(transaction.objectStore(BLOB_BYTES).get(id)),
      );
      if (sealed === undefined) return undefined;
      if (!(sealed instanceof Uint8Array)) throw damagedBlob(id);
      return checkedBlob(id, await opened(sealer, id, sealed));
    },

    async put(id, bytes) {
      const own = bytes.slice();
      checkBlob(id, own);
      const sealed = await sealer.seal(labelOf(id), own);
      await database.change(async (transaction) => {
        transaction.objectStore(BLOBS).put(now(), id);
        transaction.objectStore(BLOB_BYTES).put(sealed, id);
      });
    },

    async *list() {
      const ids = await database.read((transaction) => outcome(transaction.objectStore(BLOBS).getAllKeys()));
      for (const id of ids) {
        if (typeof id !== "string") continue;
        const storedMs = await database.read((transaction) => storedMsOf(transaction, id));
        // Deleted since the ids were read.
        if (storedMs !== undefined) yield { id, storedMs };
      }
    },

    delete: (id, storedMs) =>
      database.change(async (transaction) => {
        const found = await storedMsOf(transaction, id);
        if (found === undefined || (storedMs !== undefined && found !== storedMs)) return false;
        transaction.objectStore(BLOBS).delete(id);
        transaction.objectStore(BLOB_BYTES).delete(id);
        return true;
      }),
  };
}

async function storedMsOf(transaction: Transaction, id: string): Promise<number | undefined> {
  const found = await outcome(transaction.objectStore(BLOBS).get(id));
  return typeof found === "number" ? found : undefined;
}

async function opened(sealer: Sealer, id: string, sealed: Uint8Array): Promise<Uint8Array> {
  try {
    return await sealer.open(labelOf(id), sealed);
  } catch (cause) {
    throw damagedBlob(id, cause);
  }
}

function labelOf(id: string): SealedLabel {
  return { stream: "client-blobs", direction: "blob", first: 0, count: 1, kind: id };
}
