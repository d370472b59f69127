/** A database at its edges: opened by two at once, left behind half, restored from elsewhere, its writing refused. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { DATABASE_FILE, openSqlite, openSqliteReadOnly, openSqliteStore } from "../../src/store/index.ts";
import type { Request, WriteCalls } from "../../src/store/sqlite/calls.ts";
import { openWriting } from "../../src/store/sqlite/connection.ts";
import { Engine } from "../../src/store/sqlite/engine.ts";
import { SharedEngine } from "../../src/store/sqlite/shared-engine.ts";
import { writeAheadLog } from "../../src/store/sqlite/write-ahead-log.ts";
import { created, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { contentOf, killedFolder, newFolder } from "./sqlite-fixtures.ts";
import { UnmovedStore } from "./unmoved-store.ts";

const CLOCK = new ManualClock();
const NAME = streamName("s");

async function filledFolder(): Promise<string> {
  const folder = newFolder();
  const store = await openSqliteStore(folder, CLOCK);
  await created(store.streams, NAME);
  await store.close();
  return folder;
}

test("D1: a database that cannot be written is refused for the same reason each time, and its lock is given back", async () => {
  const folder = await filledFolder();
  const database = new DatabaseSync(join(folder, DATABASE_FILE));
  database.exec("PRAGMA auto_vacuum = NONE; VACUUM");
  database.close();
  for (let at = 0; at < 2; at++) {
    await assert.rejects(openSqliteStore(folder, CLOCK), /did not take the setting auto_vacuum/);
  }
});

test("a write-ahead log without its database is refused and stays: a new database must not take it for its own", async () => {
  const folder = await killedFolder();
  rmSync(join(folder, DATABASE_FILE));
  for (const withLock of [true, false]) {
    if (!withLock) rmSync(join(folder, "holdfast.lock"));
    const before = contentOf(folder);
    await assert.rejects(openSqliteStore(folder, CLOCK), /is missing, but its write-ahead log/);
    assert.deepEqual(contentOf(folder), before);
  }
});

test("a copy that SQLite made without a write-ahead log is a database like any other", async () => {
  const folder = await filledFolder();
  const restored = newFolder();
  const database = new DatabaseSync(join(folder, DATABASE_FILE));
  database.prepare("VACUUM INTO ?").run(join(restored, DATABASE_FILE));
  database.close();
  const store = await openSqliteStore(restored, CLOCK);
  assert.equal((await store.streams.load(NAME)).kind, "live");
  await created(store.streams, streamName("new"));
  await store.close();
});

test("A3: what a killed process left in the write-ahead log is on the disk before anybody is told of it", async () => {
  const folder = await killedFolder();
  const log = join(folder, `${DATABASE_FILE}-wal`);
  assert.ok(statSync(log).size > 100_000);
  const database = await openSqlite(join(folder, DATABASE_FILE), CLOCK);
  await database.beginWriting();
  const { size } = statSync(log);
  assert.ok(size > 0 && size < 10_000, "only what the opening wrote itself, to see that the disk takes it");
  await database.close();
});

/** Holds the state that it sees until its input ends. */
const LOOKER = `
  const database = new (require("node:sqlite").DatabaseSync)(process.argv[1], { readOnly: true });
  database.exec("BEGIN");
  database.prepare("SELECT count(*) FROM counter").get();
  console.log("looking");
  process.stdin.resume();
`;

test("A3: a log that cannot be moved whole refuses the opening: its end may be nowhere but in memory", async (t) => {
  const folder = await filledFolder();
  const path = join(folder, DATABASE_FILE);
  const owner = await openSqliteStore(folder, CLOCK);
  const looker = spawn(process.execPath, ["-e", LOOKER, path], { stdio: ["pipe", "pipe", "inherit"] });
  const isOver = once(looker, "exit");
  t.after(() => looker.kill("SIGKILL"));
  await once(looker.stdout, "data");
  await created(owner.streams, streamName("later"));
  await owner.close();
  await assert.rejects(openSqliteStore(folder, CLOCK), /another process reads an old state/);
  looker.stdin.end();
  await isOver;
  const again = await openSqliteStore(folder, CLOCK);
  assert.equal((await again.streams.load(streamName("later"))).kind, "live");
  await again.close();
});

/** Moves the log, and waits for a reader with that. */
const MOVER = `
  const { workerData } = require("node:worker_threads");
  const database = new (require("node:sqlite").DatabaseSync)(workerData, { timeout: 600_000 });
  while (database.prepare("PRAGMA wal_checkpoint(FULL)").get().busy === 1);
`;

test("A3: a log that another connection is moving does not count as moved", async (t) => {
  const store = new UnmovedStore();
  store.put("a", new Uint8Array(10));
  const reader = new DatabaseSync(store.path, { readOnly: true });
  t.after(() => reader.isOpen && reader.close());
  reader.exec("BEGIN; SELECT count(*) FROM rows");
  store.put("b", new Uint8Array(10));
  const mover = new Worker(MOVER, { eval: true, workerData: store.path });
  const isOver = once(mover, "exit");
  const database = openWriting(store.path);
  const log = writeAheadLog(database);
  while (log.move().pages !== -1) await new Promise(setImmediate);
  assert.throws(() => log.moveAll(), /another process .* moves its log/);
  reader.close();
  await isOver;
  log.moveAll();
  database.close();
  store.engine.close();
});

test("F5: a store says that it failed once, and whose write it was does not matter", async () => {
  const folder = newFolder();
  const store = await openSqliteStore(folder, CLOCK);
  await store.tables.put({ table: "t", key: "a" }, Uint8Array.of(1));
  const spoiler = new DatabaseSync(join(folder, DATABASE_FILE));
  spoiler.exec("DROP TABLE counter");
  spoiler.close();
  await assert.rejects(store.tables.put({ table: "t", key: "b" }, Uint8Array.of(1)), /could not be written/);
  assert.match((await store.failed).message, /could not be written/);
  await assert.rejects(created(store.streams, NAME), /could not be written/);
  await store.close();
});

test("who only looks does not take the log's index away from an owner that came meanwhile", async () => {
  const killed = await killedFolder();
  const folder = newFolder();
  const path = join(folder, DATABASE_FILE);
  for (const file of readdirSync(killed)) {
    if (file === DATABASE_FILE || file.endsWith("-wal")) copyFileSync(join(killed, file), join(folder, file));
  }
  const looking = await openSqliteReadOnly(path, CLOCK);
  const owner = await openSqlite(path, CLOCK);
  await owner.beginWriting();
  await looking.close();
  assert.ok(existsSync(`${path}-shm`));
  await owner.close();
});

test("F5: a process whose write failed does not keep others from writing to a shared database", () => {
  const path = join(newFolder(), "journals.db");
  const lockPath = join(path, "..", "journals.lock");
  const [failed, other] = [new SharedEngine(path, lockPath), new SharedEngine(path, lockPath)];
  const part = (id: number, upload: number): Request<keyof WriteCalls> => ({
    id,
    kind: "putPart",
    ask: { upload, part: 0, bytes: Uint8Array.of(1) },
  });
  assert.throws(() => failed.write([part(1, 7), part(2, 7)]), HoldfastError);
  assert.throws(() => failed.write([part(3, 8)]), HoldfastError);
  assert.equal(other.write([part(1, 7)]).length, 1);
  failed.close();
  other.close();
});

test("F5: after a failed write nothing is moved or synced any more, and the next start finds what was acknowledged", () => {
  const folder = newFolder();
  const path = join(folder, DATABASE_FILE);
  const start = { path, lockPath: join(folder, "holdfast.lock"), mode: "own" } as const;
  const engine = new Engine(start);
  engine.write([
    {
      id: 1,
      kind: "append",
      ask: { record: new Uint8Array(50_000), body: undefined, freed: [], blobs: [], nowMs: 0 },
    },
  ]);
  const before = [statSync(path).size, statSync(`${path}-wal`).size];
  engine.fail(new Error("the disk went away"));
  engine.close();
  assert.deepEqual([statSync(path).size, statSync(`${path}-wal`).size], before);
  const again = new Engine(start);
  assert.equal(again.read({ id: 1, kind: "read", ask: { row: 1 } }).byteLength, 50_000);
  again.close();
});
