/** What is not a whole database of ours is refused with a clear message, and afterwards is what it was before. */
import assert from "node:assert/strict";
import {
  copyFileSync,
  openSync,
  readFileSync,
  readdirSync,
  truncateSync,
  writeFileSync,
  writeSync,
  closeSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  DATABASE_FILE,
  lockFile,
  openSqlite,
  openSqliteReadOnly,
  openSqliteStore,
} from "../../src/store/index.ts";
import { created, grown, readAll, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { contentOf, killedFolder, newFolder } from "./sqlite-fixtures.ts";

const CLOCK = new ManualClock();
const NAME = streamName("s");

function isRefusal(code: ErrorCode, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof HoldfastError);
    assert.match(error.message, message);
    return error.code === code;
  };
}

async function assertRefused(folder: string, code: ErrorCode, message: RegExp): Promise<void> {
  const before = contentOf(folder);
  await assert.rejects(openSqliteStore(folder, CLOCK), isRefusal(code, message));
  assert.deepEqual(contentOf(folder), before);
  await assert.rejects(openSqliteStore(folder, CLOCK), isRefusal(code, message));
  assert.deepEqual(contentOf(folder), before);
}

/** A data directory with a stream of some events, a table row and a blob, closed in an orderly way. */
async function filledFolder(): Promise<string> {
  const folder = newFolder();
  const store = await openSqliteStore(folder, CLOCK);
  let state = await created(store.streams, NAME);
  for (let at = 0; at < 20; at++) state = await grown(store.streams, NAME, state, { events: 20, chunks: 1 });
  await store.tables.put({ table: "t", key: "k" }, new Uint8Array(5000));
  await store.close();
  return folder;
}

/** Changes bytes of a file behind everybody's back. */
function overwrite(path: string, at: number, bytes: Uint8Array): void {
  const file = openSync(path, "r+");
  writeSync(file, bytes, 0, bytes.byteLength, at);
  closeSync(file);
}

/** Changes every copy of a text in a file: pages may hold remains of rows that lie elsewhere now. */
function spoil(path: string, text: string): void {
  const content = readFileSync(path);
  let count = 0;
  for (let at = content.indexOf(text); at !== -1; at = content.indexOf(text, at + 1)) {
    overwrite(path, at, Buffer.from("E"));
    count += 1;
  }
  assert.ok(count > 0);
}

test("a file that is no database is refused and stays", async () => {
  for (const content of ["", "hello", "x".repeat(10_000)]) {
    const folder = newFolder();
    writeFileSync(join(folder, DATABASE_FILE), content);
    await assertRefused(folder, "stream_failed", /is not a database; nothing was changed/);
  }
});

test("a database of another program is refused and stays, also one with a write-ahead log", async () => {
  const folder = newFolder();
  const other = new DatabaseSync(join(folder, "other.db"));
  other.exec("PRAGMA journal_mode = WAL; CREATE TABLE log (x); INSERT INTO log VALUES (1)");
  for (const suffix of ["", "-wal"]) {
    copyFileSync(join(folder, `other.db${suffix}`), join(folder, `${DATABASE_FILE}${suffix}`));
  }
  other.close();
  await assertRefused(folder, "stream_failed", /another program/);
});

test("a newer format is refused and stays", async () => {
  const folder = await filledFolder();
  const database = new DatabaseSync(join(folder, DATABASE_FILE));
  database.exec("PRAGMA user_version = 2");
  database.close();
  await assertRefused(folder, "unsupported_version", /format 2, written by a newer Holdfast/);
});

test("a database that was cut short is refused and stays", async () => {
  const folder = await filledFolder();
  const path = join(folder, DATABASE_FILE);
  writeFileSync(path, readFileSync(path).subarray(0, -4096));
  await assertRefused(folder, "stream_failed", /is damaged: it has \d+ bytes/);
});

test("a flipped bit in a row of the log is found by its checksum", async () => {
  const folder = await filledFolder();
  const path = join(folder, DATABASE_FILE);
  spoil(path, "event 201+20");
  await assertRefused(folder, "stream_failed", /row \d+ does not match its checksum; restore/);
});

test("a flipped bit in a row of the log is found also while a write-ahead log holds the rest", async () => {
  const folder = await killedFolder();
  spoil(join(folder, DATABASE_FILE), "event xxx");
  await assertRefused(folder, "stream_failed", /checksum|damaged/);
});

test("a row that is missing from the log is refused, and nothing beside it changes", async () => {
  const folder = await filledFolder();
  const database = new DatabaseSync(join(folder, DATABASE_FILE));
  database.exec("DELETE FROM log WHERE row = 9");
  database.close();
  await assertRefused(folder, "stream_failed", /not dense/);
});

test("damaged pages of the small tables are refused", async () => {
  const folder = await filledFolder();
  const path = join(folder, DATABASE_FILE);
  const database = new DatabaseSync(path);
  const root = Number(
    database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'rows'").get()?.["rootpage"],
  );
  database.close();
  overwrite(path, (root - 1) * 4096, new Uint8Array(200).fill(0x5a));
  await assertRefused(folder, "stream_failed", /is damaged: .*Restore the data directory/);
});

test("A3: what a killed process left behind is whole, with or without the index of its log", async () => {
  for (const keepIndex of [true, false]) {
    const killed = await killedFolder();
    const isWanted = (file: string): boolean => keepIndex || !file.endsWith("-shm");
    const folder = copyOf(killed, isWanted);
    const looking = await openSqliteReadOnly(join(folder, DATABASE_FILE), CLOCK);
    const rows: number[] = [];
    for await (const { row } of looking.log.scan()) rows.push(row);
    assert.deepEqual(
      rows,
      Array.from(rows, (_, at) => at + 1),
    );
    assert.ok(rows.length > 10);
    await looking.close();
    assert.deepEqual(contentOf(folder), contentOf(copyOf(killed, isWanted)));
    const store = await openSqliteStore(folder, CLOCK);
    await store.close();
  }
});

function copyOf(folder: string, isWanted: (file: string) => boolean = () => true): string {
  const copy = newFolder();
  for (const file of readdirSync(folder).filter(isWanted)) copyFileSync(join(folder, file), join(copy, file));
  return copy;
}

test("A3: a process killed between the header of its log and the first commit in it leaves a database that opens", async () => {
  const killed = await killedFolder();
  // As long as the header; shorter, if the machine itself went down.
  for (const bytes of [32, 31, 0]) {
    const folder = await filledFolder();
    const path = join(folder, DATABASE_FILE);
    for (const suffix of ["-wal", "-shm"]) copyFileSync(join(killed, DATABASE_FILE + suffix), path + suffix);
    truncateSync(`${path}-wal`, bytes);
    const before = contentOf(folder);
    const looking = await openSqliteReadOnly(path, CLOCK);
    await looking.close();
    assert.deepEqual(contentOf(folder), before);
    const store = await openSqliteStore(folder, CLOCK);
    assert.equal((await store.tables.get({ table: "t", key: "k" }))?.value.byteLength, 5000);
    await store.close();
  }
});

test("a write-ahead log with a damaged header is refused: SQLite would take it for empty", async () => {
  const killed = await killedFolder();
  for (const at of [0, 3, 10, 17, 30]) {
    const folder = copyOf(killed);
    const log = join(folder, `${DATABASE_FILE}-wal`);
    overwrite(log, at, Buffer.from([0xff ^ (readFileSync(log)[at] ?? 0)]));
    await assertRefused(folder, "stream_failed", /is damaged: the header of its write-ahead log .* is wrong/);
  }
});

test("D1: a data directory has one owner at a time", async () => {
  const folder = newFolder();
  const first = await openSqliteStore(folder, CLOCK);
  await assert.rejects(
    openSqliteStore(folder, CLOCK),
    isRefusal("unavailable", /held by another process; stop/),
  );
  await created(first.streams, NAME);
  await first.close();
  const second = await openSqliteStore(folder, CLOCK);
  assert.equal((await second.streams.load(NAME)).kind, "live");
  await second.close();
});

test("looking at a database changes nothing, refuses writes, and works beside its owner", async () => {
  const folder = await filledFolder();
  const path = join(folder, DATABASE_FILE);
  const before = contentOf(folder);
  const looking = await openSqliteReadOnly(path, CLOCK);
  await assert.rejects(looking.log.append(Uint8Array.of(1)), HoldfastError);
  assert.equal((await looking.tables.get({ table: "t", key: "k" }))?.value.byteLength, 5000);
  await looking.close();
  assert.deepEqual(contentOf(folder), before);

  const owner = await openSqliteStore(folder, CLOCK);
  const beside = await openSqliteReadOnly(path, CLOCK);
  await owner.tables.put({ table: "t", key: "new" }, Uint8Array.of(7));
  assert.deepEqual((await beside.tables.get({ table: "t", key: "new" }))?.value, Uint8Array.of(7));
  await assert.rejects(beside.tables.put({ table: "t", key: "k" }, Uint8Array.of(1)), HoldfastError);
  await beside.close();
  const events = await readAll(1, (from) => owner.streams.readEvents(NAME, from, 1000));
  assert.equal(events.length, 20);
  await owner.close();
});

test("a folder without a database is not found, and stays empty", async () => {
  const folder = newFolder();
  const missing = openSqliteReadOnly(join(folder, DATABASE_FILE), CLOCK);
  await assert.rejects(missing, isRefusal("not_found", /there is no database/));
  assert.deepEqual(readdirSync(folder), []);
});

test("a database that was not finished being made is made anew", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, `${DATABASE_FILE}.new`), "half");
  const store = await openSqliteStore(folder, CLOCK);
  await store.close();
  assert.deepEqual(readdirSync(folder).toSorted(), [DATABASE_FILE, "holdfast.lock"]);
});

test("a lock is held until it is released, and many may share one", () => {
  const path = join(newFolder(), "x.lock");
  const held = lockFile(path);
  assert.throws(() => lockFile(path), isRefusal("unavailable", /held by another process/));
  assert.throws(() => lockFile(path, { shared: true }), isRefusal("unavailable", /held/));
  held.release();
  held.release();
  const shared = [lockFile(path, { shared: true }), lockFile(path, { shared: true })];
  assert.throws(() => lockFile(path), isRefusal("unavailable", /held/));
  for (const lock of shared) lock.release();
  lockFile(path).release();
  assert.throws(() => lockFile(join(path, "no", "such")), isRefusal("unavailable", /cannot be locked/));
});

test("closing a database that never wrote leaves it as it was", async () => {
  const folder = await filledFolder();
  const before = contentOf(folder);
  const database = await openSqlite(join(folder, DATABASE_FILE), CLOCK);
  await database.close();
  assert.deepEqual(contentOf(folder), before);
});
