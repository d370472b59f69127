/**
 * A scope, opened: its database, its home key, and this process's presence among those that share it.
 *
 * Several processes may have the same scope open, such as two terminals in one workspace. Each
 * journal is written by one of them at a time.
 */
import type { WriterLocks } from "../client/index.ts";
import type { SyncSealing } from "../sealing/index.ts";
import { openSharedTables } from "../store/sqlite/shared-tables.ts";
import { tableBlobStore } from "./blobs.ts";
import { tableConversationStore } from "./conversations.ts";
import { resolveHomeKey } from "./home-key.ts";
import { filePlace, type KeyPlace, keyringPlace } from "./key-places.ts";
import { systemKeyring } from "./keyring.ts";
import { announce } from "./presence.ts";
import { keyDirectory, makeScope, type ScopeName, scopePaths, thisPlatform } from "./scope.ts";
import { tableJournalStore, type TableJournalStore } from "./table-journal-store.ts";

interface JournalsOptions {
  readonly scope: ScopeName;
  readonly directory: string | undefined;
  readonly homeKey: Uint8Array | undefined;
  readonly keyring: boolean;
  /** The server whose streams these are; empty when any will do. */
  readonly server: string;
  readonly sealing: SyncSealing;
  readonly onNotice: (message: string) => void;
}

export type Journals = Awaited<ReturnType<typeof openJournals>>;

export async function openJournals(options: JournalsOptions) {
  const { sealing, onNotice } = options;
  const paths = scopePaths(options);
  makeScope(paths, options.scope);
  const tables = await openSharedTables(paths.database, { now: Date.now });
  try {
    const places = (scopeId: string): readonly KeyPlace[] => [
      ...(options.keyring ? [keyringPlace(systemKeyring(), scopeId)] : []),
      filePlace(keyDirectory(thisPlatform()), scopeId, paths.directory, onNotice),
    ];
    const { directory, keyLock } = paths;
    const homeKey = await resolveHomeKey({
      tables,
      sealing,
      directory,
      given: options.homeKey,
      places,
      keyLock,
    });
    const presence = announce(paths.processes);
    const store = tableJournalStore({ tables, owner: presence, server: options.server });
    const sealer = sealing.homeSealer(homeKey);
    return {
      /** Where they lie. */
      directory,
      store,
      writerLocks: locksOf(store),
      homeKey,
      sealer,
      /** Conversations and their blobs, in the same database. */
      stores: {
        blobs: tableBlobStore({ tables, sealer, now: Date.now }),
        records: tableConversationStore(tables, sealer),
      },
      async close(): Promise<void> {
        await store.quiet();
        await tables.close();
        presence.release();
      },
    };
  } catch (cause) {
    await tables.close();
    throw cause;
  }
}

function locksOf(store: TableJournalStore): WriterLocks {
  return {
    async acquire(idempotencyKey) {
      const claim = await store.claim(idempotencyKey);
      if (claim.kind === "held") return claim;
      // A disk that fails here has failed the stream as well; the journal is free when this process ends.
      const release = (): void => void store.release(idempotencyKey).catch(() => undefined);
      return { kind: "acquired", release };
    },
  };
}
