/**
 * Tables that several processes share: the suite of every table store with a second handle, a start of
 * many at once, and files that are refused.
 */
import assert from "node:assert/strict";
import { lstatSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import type { TableStore } from "../../src/store/index.ts";
import { lockPathOf, openSqlite } from "../../src/store/sqlite/database.ts";
import { lockFile, makeLockFile } from "../../src/store/sqlite/lock.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { tableStoreConformance } from "../conformance/table-store.ts";
import { ManualClock } from "../store/manual-clock.ts";
import { Child } from "./child.ts";
import { temporaryDirectory } from "./temporary.ts";

const now = (): number => Date.now();

const directories: string[] = [];
after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

tableStoreConformance("shared SQLite tables", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-tables-"));
  const path = join(directory, "client.db");
  const clock = new ManualClock();
  const open = () => openSharedTables(path, { now: () => clock.now() });
  const store = await open();
  directories.push(directory);
  const peer = await open();
  // The suite closes what it was given; what it opens anew takes over the place of the store.
  const reopen = async (): Promise<TableStore> => {
    await peer.close();
    return open();
  };
  return { store, peer, clock, reopen };
});

test("A4: eight processes that start at once on nothing share one counter and lose no write", async (t) => {
  const path = join(temporaryDirectory(t), "client.db");
  const children = Array.from({ length: 8 }, () => new Child(t, "counting.ts", [path, "8"]));
  const said = await Promise.all(children.map((child) => child.word("done")));
  const versions = said.flatMap((text) => text.split(","));
  assert.equal(new Set(versions).size, 8 * 8, "a version was drawn twice");
  const tables = await openSharedTables(path, { now });
  t.after(() => tables.close());
  const rows = await tables.list("t", "", { after: undefined, countMax: 1_000 });
  const sum = Buffer.from(rows[0]?.value ?? []).toString();
  assert.deepEqual([rows.length, sum], [1, String(8 * 8)]);
});

test("E4: the database and what lies beside it can be read by its user only", async (t) => {
  const directory = temporaryDirectory(t);
  const tables = await openSharedTables(join(directory, "client.db"), { now });
  t.after(() => tables.close());
  await tables.put({ table: "t", key: "k" }, Buffer.from("v"));
  const names = readdirSync(directory);
  assert.ok(names.includes("client.db-wal"));
  for (const name of names) assert.equal(lstatSync(join(directory, name)).mode & 0o777, 0o600, name);
});

test("a database that the others have not made yet is waited for, by the clock", async (t) => {
  const directory = temporaryDirectory(t);
  const [path, made] = [join(directory, "client.db"), join(directory, "made.db")];
  await (await openSharedTables(made, { now })).close();
  // Others are there, so this one may not make it.
  makeLockFile(lockPathOf(path));
  const others = lockFile(lockPathOf(path), { shared: true });
  t.after(() => others.release());
  const opening = openSharedTables(path, { now });
  setTimeout(() => renameSync(made, path), 1_500);
  await (await opening).close();
});

test("D1: a process that owns a database and those that share it keep each other out", async (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, "client.db");
  const tables = await openSharedTables(path, { now });
  await assert.rejects(openSqlite(path, { now }), { code: "unavailable" });
  await tables.close();
  const owner = await openSqlite(path, { now });
  const reader = new Child(t, "counting.ts", [path, "1"]);
  await reader.exited;
  assert.match(reader.stderr, /held by another process/);
  await owner.close();
});

test("a file of another program, of a newer format, or of none is refused and stays as it is", async (t) => {
  const directory = temporaryDirectory(t);
  const foreign = join(directory, "foreign.db");
  const made = new DatabaseSync(foreign);
  made.exec("CREATE TABLE t (x)");
  made.close();
  await assert.rejects(openSharedTables(foreign, { now }), {
    code: "stream_failed",
    message: /another program/,
  });

  const newer = join(directory, "newer.db");
  await (await openSharedTables(newer, { now })).close();
  const changed = new DatabaseSync(newer);
  changed.exec("PRAGMA user_version = 99");
  changed.close();
  await assert.rejects(openSharedTables(newer, { now }), { code: "unsupported_version" });

  const text = join(directory, "text.db");
  writeFileSync(text, "this is no database ".repeat(100));
  await assert.rejects(openSharedTables(text, { now }), { code: "stream_failed", message: /damaged/ });
});
