/** Rows of the log that are asked for in one go are one question to the database's thread, and each has its own answer. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { type CommitLog, DATABASE_FILE } from "../../src/store/index.ts";
import { lockPathOf } from "../../src/store/sqlite/database.ts";
import { sqliteLog } from "../../src/store/sqlite/sqlite-log.ts";
import { startThread } from "../../src/store/sqlite/thread.ts";
import { newFolder } from "./sqlite-fixtures.ts";

interface Opened {
  readonly log: CommitLog;
  /** What the thread was asked, by its kind. */
  readonly asked: string[];
}

async function open(t: TestContext): Promise<Opened> {
  const path = join(newFolder(), DATABASE_FILE);
  const thread = await startThread({ path, lockPath: lockPathOf(path), mode: "own" });
  t.after(() => thread.close());
  const asked: string[] = [];
  const call = thread.call.bind(thread);
  thread.call = (kind, ...given) => {
    asked.push(kind);
    return call(kind, ...given);
  };
  return { log: sqliteLog(thread, Date.now), asked };
}

async function appended({ log }: Opened, count: number, bytes: number): Promise<readonly number[]> {
  const rows: number[] = [];
  for (let number = 0; number < count; number++)
    rows.push(await log.append(new Uint8Array(bytes).fill(number)));
  return rows;
}

test("rows that are asked for together come with one message; large ones with more, so that commits come between", async (t) => {
  for (const { bytes, messages } of [
    { bytes: 10, messages: ["readRows"] },
    // Three in each, and two that are left.
    { bytes: 100_000, messages: [1, 2, 3, 4, 5, 6, 7].map(() => "readRows") },
  ]) {
    const opened = await open(t);
    const rows = await appended(opened, 20, bytes);
    opened.asked.length = 0;
    const records = await Promise.all(rows.map((row) => opened.log.read(row)));
    assert.deepEqual(
      records.map((record) => [record[0], record.length]),
      rows.map((_, number) => [number, bytes]),
    );
    assert.deepEqual(opened.asked, messages);
  }
});

test("a row that is gone fails its own read, and none of those that were asked for with it", async (t) => {
  const opened = await open(t);
  const rows = await appended(opened, 5, 10);
  await opened.log.drop([rows[2] ?? 0]);
  const reads = await Promise.allSettled(rows.map((row) => opened.log.read(row)));
  const found = reads.map((read) =>
    read.status === "fulfilled" ? read.value[0] : HoldfastError.codeOf(read.reason),
  );
  assert.deepEqual(found, [0, 1, "unavailable", 3, 4]);
});
