/**
 * The page of the storage tests: the journal store's conformance suite over the browser's own
 * IndexedDB, and what only a browser can do to it.
 */
import { indexedDbBlobStore } from "../../../src/client/browser/blobs.ts";
import { indexedDbConversationStore } from "../../../src/client/browser/conversations.ts";
import {
  type BrowserDatabase,
  browserDatabase,
  FORMAT_VERSION,
} from "../../../src/client/browser/database.ts";
import { browserHomeKey } from "../../../src/client/browser/home-key.ts";
import { indexedDbJournalStore } from "../../../src/client/browser/indexeddb-journal-store.ts";
import type { Database, DatabaseFactory } from "../../../src/client/browser/platform.ts";
import { thisBrowser } from "../../../src/client/browser/this-browser.ts";
import { blobIdOf, type JournalStore } from "../../../src/client/index.ts";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { webSealing } from "../../../src/sealing/index.ts";
import { clientStoresConformance } from "../../conformance/client-stores.ts";
import { journalStoreConformance, type JournalStoreUnderTest } from "../../conformance/journal-store.ts";
import { offer } from "./calls.ts";
import { collected } from "./test-runner.ts";

const { indexedDB, keyRanges } = thisBrowser();

/** Keeps hold of the databases it opens, to do things to them from outside. */
class Opener implements DatabaseFactory {
  database: Database | undefined;

  open(name: string, version: number): ReturnType<DatabaseFactory["open"]> {
    const request = indexedDB.open(name, version);
    request.addEventListener("success", () => (this.database = request.result));
    return request;
  }
}

let made = 0;

function underTest(): JournalStoreUnderTest {
  const name = `conformance-${++made}`;
  const opener = new Opener();
  let database: BrowserDatabase | undefined;
  const open = (): JournalStore => {
    database?.close();
    database = browserDatabase(opener, name);
    return indexedDbJournalStore(database, keyRanges);
  };
  return {
    store: open(),
    reopen: open,
    settle: (promise) => promise,
    // Its first record goes away, in a transaction that comes before whatever is asked next.
    damage: (idempotencyKey) => {
      const transaction = opener.database?.transaction(["records"], "readwrite");
      transaction?.objectStore("records").delete([idempotencyKey, 0]);
    },
    close: async () => database?.close(),
  };
}

journalStoreConformance("IndexedDB", underTest, { damageable: true });

/** Conversations and blobs, sealed as an opened client seals them. */
clientStoresConformance(
  "IndexedDB",
  async (clock) => {
    const name = `stores-${++made}`;
    const opener = new Opener();
    const sealer = webSealing().homeSealer(new Uint8Array(32).fill(5));
    let database = browserDatabase(opener, name);
    const stores = () => ({
      blobs: indexedDbBlobStore(database, sealer, () => clock.nowMs),
      records: indexedDbConversationStore(database, sealer),
    });
    return {
      ...stores(),
      reopen: async () => {
        database.close();
        database = browserDatabase(opener, name);
        return stores();
      },
      damage: async (id) => {
        const transaction = opener.database?.transaction(["blob bytes"], "readwrite");
        transaction?.objectStore("blob bytes").put(new Uint8Array(100), id);
      },
      close: async () => database.close(),
    };
  },
  { damageable: true },
);

const refusal = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no refusal",
    (cause: unknown) => (cause instanceof HoldfastError ? `${cause.code}: ${cause.message}` : String(cause)),
  );

async function openRaw(name: string, version: number): Promise<Database> {
  const request = indexedDB.open(name, version);
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(new Error(String(request.error))));
  });
}

const open: JournalStore[] = [];

const storagePage = {
  tests: () => collected.map(({ name }) => name),

  runTest: async (at: number) => {
    await collected[at]?.run();
  },

  newerDatabase: async () => {
    (await openRaw("newer", FORMAT_VERSION + 1)).close();
    const store = indexedDbJournalStore(browserDatabase(indexedDB, "newer"), keyRanges);
    return refusal(store.list());
  },

  /** The newer code of another tab, here in the same one. */
  /** A database as the first format left it, with a journal in it. */
  olderDatabase: async () => {
    const request = indexedDB.open("older", 1);
    request.addEventListener("upgradeneeded", () => {
      for (const store of ["journals", "records", "keys"]) request.result.createObjectStore(store);
    });
    const older = await new Promise<Database>((resolve) => {
      request.addEventListener("success", () => resolve(request.result));
    });
    const writing = older.transaction(["journals", "records"], "readwrite");
    writing.objectStore("records").add(new Uint8Array(3), ["k", 0]);
    writing.objectStore("journals").put(1, "k");
    await new Promise<void>((resolve) => writing.addEventListener("complete", resolve));
    older.close();
    const database = browserDatabase(indexedDB, "older");
    const blobs = indexedDbBlobStore(database, webSealing().homeSealer(new Uint8Array(32)));
    await blobs.put(blobIdOf(Uint8Array.of(1)), Uint8Array.of(1));
    return (await indexedDbJournalStore(database, keyRanges).read("k")).map((record) => record.length);
  },

  overtaken: async () => {
    const store = indexedDbJournalStore(browserDatabase(indexedDB, "overtaken"), keyRanges);
    await store.append("k", [new Uint8Array(1)]);
    (await openRaw("overtaken", FORMAT_VERSION + 1)).close();
    return refusal(store.append("k", [new Uint8Array(1)]));
  },

  changed: async () => {
    const opener = new Opener();
    const store = indexedDbJournalStore(browserDatabase(opener, "changed"), keyRanges);
    await store.append("k", [new Uint8Array(3)]);
    const transaction = opener.database?.transaction(["records"], "readwrite");
    transaction?.objectStore("records").put("no bytes", ["k", 0]);
    return refusal(store.read("k"));
  },

  /** How durable the browser was asked to make each change. */
  durabilities: async () => {
    const asked: string[] = [];
    class Watching extends Opener {
      override open(name: string, version: number): ReturnType<DatabaseFactory["open"]> {
        const request = super.open(name, version);
        request.addEventListener("success", () => {
          const { result } = request;
          const transaction = result.transaction.bind(result);
          result.transaction = (stores, mode, options) => {
            const begun = transaction(stores, mode, options);
            if (mode === "readwrite") asked.push(String(Reflect.get(begun, "durability")));
            return begun;
          };
        });
        return request;
      }
    }
    const database = browserDatabase(new Watching(), "watched");
    const store = indexedDbJournalStore(database, keyRanges);
    await store.append("k", [new Uint8Array(1)]);
    await store.replace("k", [new Uint8Array(2)]);
    await store.remove("k");
    await browserHomeKey(database);
    return asked;
  },

  /** Resolves with what append said; the journal afterwards must be as before. */
  append: async (idempotencyKey: string, bytes: number) => {
    const store = (open[0] ??= indexedDbJournalStore(browserDatabase(indexedDB, "kept"), keyRanges));
    return refusal(store.append(idempotencyKey, [new Uint8Array(bytes)]));
  },

  lengths: async (idempotencyKey: string) => {
    const store = (open[0] ??= indexedDbJournalStore(browserDatabase(indexedDB, "kept"), keyRanges));
    return (await store.read(idempotencyKey)).map((record) => record.length);
  },

  /** Something that only the same home key gives, and whether a script could carry the key away. */
  homeKey: async () => {
    const { key } = await browserHomeKey(browserDatabase(indexedDB, "keys"));
    const derived = await webSealing().deriveStreamKey(key, "stream");
    return { derived: derived.join(), extractable: key.extractable };
  },
};

export type StoragePage = typeof storagePage;
offer(storagePage);
