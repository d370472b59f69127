/** A database file of version 0.1.0 is used as it is: nothing of it is made anew, and all that it held is there. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import {
  DATABASE_FILE,
  openSqlite,
  openSqliteReadOnly,
  openSqliteStore,
  sha256Hex,
} from "../../src/store/index.ts";
import { blobStoreConformance } from "../conformance/blob-store.ts";
import { created, grown, readAll, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { newFolder } from "./sqlite-fixtures.ts";

/** What made a file in version 0.1.0, word for word. Since then `blobs` is its own index, and its uploads are not said to be unique. */
const MADE_BY_0_1_0 = `
  PRAGMA page_size = 4096;
  PRAGMA auto_vacuum = INCREMENTAL;
  BEGIN;
  PRAGMA application_id = 1214673780;
  PRAGMA user_version = 1;
  CREATE TABLE log (
    row INTEGER PRIMARY KEY,
    crc INTEGER NOT NULL,
    record BLOB NOT NULL,
    body_crc INTEGER,
    body BLOB
  ) STRICT;

  CREATE TABLE rows (
    tab TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_ms REAL,
    value BLOB NOT NULL,
    PRIMARY KEY (tab, key)
  ) STRICT;
  CREATE INDEX rows_that_end ON rows (expires_ms) WHERE expires_ms IS NOT NULL;

  CREATE TABLE counter (
    last INTEGER NOT NULL
  ) STRICT;
  INSERT INTO counter VALUES (0);

  CREATE TABLE log_end (
    row INTEGER NOT NULL
  ) STRICT;
  INSERT INTO log_end VALUES (0);

  CREATE TABLE blobs (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    upload INTEGER NOT NULL UNIQUE,
    stored_bytes INTEGER NOT NULL,
    stored_ms REAL NOT NULL,
    PRIMARY KEY (space, id)
  ) STRICT;

  CREATE TABLE blob_parts (
    upload INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (upload, part)
  ) STRICT;
  COMMIT;
  PRAGMA journal_mode = WAL;
`;

/** An empty one; returns its path. */
function oldFile(): string {
  const path = join(newFolder(), DATABASE_FILE);
  const database = new DatabaseSync(path);
  database.exec(MADE_BY_0_1_0);
  database.close();
  return path;
}

/** How a table of the file was declared. */
function declaredIn(path: string, table: string): string {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return String(database.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(table)?.["sql"]);
  } finally {
    database.close();
  }
}

blobStoreConformance("the SQLite blob store in a file of version 0.1.0", async () => {
  const clock = new ManualClock();
  const path = oldFile();
  const { blobs } = await openSqlite(path, clock);
  return {
    store: blobs,
    clock,
    reopen: async () => {
      await blobs.close();
      return (await openSqlite(path, clock)).blobs;
    },
  };
});

test("A3: a data directory of version 0.1.0 opens, keeps all that is put there, and stays in its form", async () => {
  const clock = new ManualClock();
  const path = oldFile();
  const folder = dirname(path);
  const [first, second] = ["of the old version", "put since"].map((text) => new TextEncoder().encode(text));
  assert.ok(first !== undefined && second !== undefined);
  const nameOf = (bytes: Uint8Array) => ({ space: "s", id: sha256Hex(bytes) });
  // As its own process left it.
  const before = new DatabaseSync(path);
  before.exec("UPDATE counter SET last = 2");
  before.prepare("INSERT INTO rows VALUES ('t', 'k', 1, NULL, ?)").run(Uint8Array.of(1));
  before.prepare("INSERT INTO blob_parts VALUES (2, 0, ?)").run(first);
  before.prepare("INSERT INTO blobs VALUES ('s', ?, 2, ?, 1000.5)").run(sha256Hex(first), first.length);
  before.close();
  const store = await openSqliteStore(folder, clock);
  assert.deepEqual((await store.tables.get({ table: "t", key: "k" }))?.value, Uint8Array.of(1));
  assert.deepEqual(await store.blobs.get(nameOf(first)), { kind: "found", bytes: first });
  assert.deepEqual(await store.blobs.put(nameOf(second), second), { existed: false });
  const name = streamName("s");
  const state = await grown(store.streams, name, await created(store.streams, name), {
    events: 20,
    chunks: 1,
  });
  await store.shred();
  await store.close();
  const again = await openSqliteReadOnly(path, clock);
  assert.equal(await again.findDamage(), undefined);
  assert.deepEqual(await again.blobs.get(nameOf(first)), { kind: "found", bytes: first });
  assert.deepEqual(await again.blobs.get(nameOf(second)), { kind: "found", bytes: second });
  await again.close();
  const whole = await openSqliteStore(folder, clock);
  const events = await readAll(1, (from) => whole.streams.readEvents(name, from, 1_000_000));
  assert.equal(
    events.reduce((sum, { count }) => sum + count, 0),
    state.eventHead,
  );
  assert.deepEqual((await whole.tables.get({ table: "t", key: "k" }))?.value, Uint8Array.of(1));
  assert.equal(await whole.blobs.clear("s"), 2);
  await whole.close();
  // Older versions read it as well.
  assert.match(declaredIn(path, "blobs"), /UNIQUE/);
});
