/** The SQLite stores pass the same suites as the others, also over a restart. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { test } from "node:test";
import type { SqliteDatabase } from "../../src/store/index.ts";
import { DATABASE_FILE, openLogStreamStore, openSqlite, openSqliteStore } from "../../src/store/index.ts";
import { blobStoreConformance } from "../conformance/blob-store.ts";
import { streamStoreConformance } from "../conformance/stream-store.ts";
import { tableStoreConformance } from "../conformance/table-store.ts";
import { ManualClock } from "./manual-clock.ts";
import { newFolder } from "./sqlite-fixtures.ts";

streamStoreConformance("the log store over SQLite", async () => {
  const clock = new ManualClock();
  const path = join(newFolder(), DATABASE_FILE);
  const open = (): Promise<SqliteDatabase> => openSqlite(path, clock);
  let database = await open();
  const { log } = database;
  let appends = 0;
  const append = log.append.bind(log);
  log.append = (...row) => {
    appends += 1;
    return append(...row);
  };
  const store = await openLogStreamStore(log, clock);
  return {
    store,
    clock,
    appends: () => appends,
    blobs: () => database.blobs,
    reopen: async () => {
      await store.close();
      database = await open();
      return openLogStreamStore(database.log, clock);
    },
  };
});

blobStoreConformance("the SQLite blob store", async () => {
  const clock = new ManualClock();
  const path = join(newFolder(), DATABASE_FILE);
  const { blobs } = await openSqlite(path, clock);
  return {
    store: blobs,
    clock,
    damage: () => {
      const database = new DatabaseSync(path, { timeout: 1000 });
      database.exec("UPDATE blob_parts SET bytes = zeroblob(length(bytes))");
      database.close();
    },
    reopen: async () => {
      await blobs.close();
      return (await openSqlite(path, clock)).blobs;
    },
  };
});

tableStoreConformance("the SQLite table store", async () => {
  const clock = new ManualClock();
  const path = join(newFolder(), DATABASE_FILE);
  const { tables } = await openSqlite(path, clock);
  return {
    store: tables,
    clock,
    reopen: async () => {
      await tables.close();
      return (await openSqlite(path, clock)).tables;
    },
  };
});

test("A3: streams, tables and blobs of a data directory survive a restart together", async () => {
  const folder = newFolder();
  const clock = new ManualClock();
  const store = await openSqliteStore(folder, clock);
  assert.equal(store.streams.durability, "fsync");
  assert.equal(store.tables.durability, "fsync");
  await store.tables.put({ table: "t", key: "k" }, Uint8Array.of(1));
  await store.close();
  await store.close();
  const again = await openSqliteStore(folder, clock);
  assert.deepEqual((await again.tables.get({ table: "t", key: "k" }))?.value, Uint8Array.of(1));
  await again.close();
});
