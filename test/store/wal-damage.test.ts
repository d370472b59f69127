/**
 * A write-ahead log in which acknowledged commits cannot be reached any more is refused, and stays as it is. One that is
 * torn by a power cut is not.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { before, test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { DATABASE_FILE, openSqliteReadOnly, openSqliteStore } from "../../src/store/index.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { frameOffset, readFrameHeader } from "../../src/store/sqlite/wal-frames.ts";
import { lookAtLog } from "../../src/store/sqlite/wal-look.ts";
import { created, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { contentOf } from "./sqlite-fixtures.ts";
import { copyOf, engineAt, killedWithStreams, UnmovedStore } from "./unmoved-store.ts";

const CLOCK = new ManualClock();
const PAGE = 4096;
const FRAME = PAGE + 24;
const STREAMS = 12;
const REFUSAL =
  /is damaged: .* of its write-ahead log .* is wrong, and at least \d+ commits lie there or behind it\. Nothing was changed\. .*holdfast doctor/;

const logOf = (folder: string): string => join(folder, `${DATABASE_FILE}-wal`);

/** Turns one bit over. */
function flip(folder: string, at: number, bit = 0): void {
  const bytes = readFileSync(logOf(folder));
  bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << bit), at);
  writeFileSync(logOf(folder), bytes);
}

/** The frames that end a commit, in order. */
function marksOf(folder: string): readonly number[] {
  const bytes = readFileSync(logOf(folder));
  const frames = Array.from({ length: Math.floor((bytes.byteLength - 32) / FRAME) }, (_, at) => at + 1);
  return frames.filter((frame) => readFrameHeader(bytes.subarray(frameOffset(frame, PAGE))).mark > 0);
}

function isRefusal(error: unknown): boolean {
  assert.ok(error instanceof HoldfastError);
  assert.match(error.message, REFUSAL);
  return error.code === "stream_failed";
}

let killed = "";

before(async () => {
  killed = await killedWithStreams(STREAMS);
});

test("A3: a flipped bit anywhere in a write-ahead log with acknowledged commits is refused, and nothing changes", () => {
  const marks = marksOf(killed);
  const [first = 0, middle = 0] = [marks[0], marks[Math.floor(marks.length / 2)]];
  const lastButOne = marks.at(-2) ?? 0;
  const inHeader = [0, 3, 4, 7, 8, 10, 12, 15, 16, 19, 20, 23, 24, 27, 28, 31];
  const inFrame = [0, 3, 6, 8, 12, 16, 20, 23, 24, 24 + 100, 24 + PAGE / 2, 24 + PAGE - 1];
  const inFrames = [1, first, middle - 1, middle, middle + 1, lastButOne].flatMap((frame) =>
    inFrame.map((at) => frameOffset(frame, PAGE) + at),
  );
  for (const at of [...inHeader, ...inFrames]) {
    const folder = copyOf(killed);
    flip(folder, at, at % 8);
    const before = contentOf(folder);
    assert.throws(() => engineAt(folder, "own"), isRefusal, `byte ${at}`);
    assert.throws(() => engineAt(folder, "look"), isRefusal, `byte ${at}`);
    assert.deepEqual(contentOf(folder), before, `byte ${at}`);
  }
});

test("A3: a damaged write-ahead log is refused however the database is opened, and nothing changes", async () => {
  const folder = copyOf(killed);
  const path = join(folder, DATABASE_FILE);
  flip(folder, frameOffset(9, PAGE) + 1000);
  const before = contentOf(folder);
  await assert.rejects(openSqliteStore(folder, CLOCK), isRefusal);
  await assert.rejects(openSqliteReadOnly(path, CLOCK), isRefusal);
  assert.deepEqual(contentOf(folder), before);
});

test("A5: a damaged write-ahead log of journals is refused by everyone who shares them, and stays", async () => {
  const folder = copyOf(killed);
  flip(folder, frameOffset(9, PAGE) + 1000);
  const before = contentOf(folder);
  const open = (): Promise<unknown> => openSharedTables(join(folder, DATABASE_FILE), CLOCK);
  for (const result of await Promise.allSettled([open(), open(), open()])) {
    assert.equal(result.status, "rejected");
    assert.match(String(result.reason), /is damaged: frame 9 .*Restore it from a backup, or move it/);
  }
  const withoutLock = contentOf(folder).filter((file) => !file.startsWith("holdfast.lock"));
  assert.deepEqual(withoutLock, before);
});

test("a flipped bit in the newest commit looks like a torn one: the log opens without it", () => {
  const marks = marksOf(killed);
  const folder = copyOf(killed);
  flip(folder, frameOffset(marks.at(-1) ?? 0, PAGE) + 500);
  assert.equal(lookAtLog(logOf(folder)).commits, marks.length - 1);
  engineAt(folder, "look").close();
  engineAt(folder, "own").close();
});

test("what an older log left behind the end is neither damage nor torn", async () => {
  const store = new UnmovedStore();
  for (let at = 0; at < 20; at++) store.put(`old ${at}`, new Uint8Array(3000));
  const { size } = statSync(logOf(store.folder));
  // Moved as a whole, the log begins anew at the next commit, over what it had.
  store.engine.keepHouse(({ log }) => log.move());
  store.put("new", new Uint8Array(10));
  assert.equal(statSync(logOf(store.folder)).size, size);
  const look = lookAtLog(logOf(store.folder));
  assert.deepEqual([look.kind, look.commits, look.marksBehind], ["whole", 1, 0]);
  const streams = await store.streams();
  await created(streams, streamName("s"));
  const folder = store.copy();
  store.engine.close();
  engineAt(folder, "own").close();
});

/** A log with the newest commit torn: its first frame is not there, its mark is. */
function tornFolder(): { readonly folder: string; readonly commits: number } {
  const store = new UnmovedStore();
  for (let at = 0; at < 8; at++) store.put(`k${at}`, new Uint8Array(20_000).fill(at));
  const folder = store.copy();
  store.engine.close();
  const marks = marksOf(folder);
  const bytes = readFileSync(logOf(folder));
  const lost = frameOffset((marks.at(-2) ?? 0) + 1, PAGE);
  bytes.fill(0, lost, lost + FRAME);
  writeFileSync(logOf(folder), bytes);
  return { folder, commits: marks.length - 1 };
}

test("A3: the mark that a power cut left behind the end is gone before a log is written on", async () => {
  const { folder, commits } = tornFolder();
  const path = join(folder, DATABASE_FILE);
  const look = lookAtLog(logOf(folder));
  assert.deepEqual([look.kind, look.commits, look.marksBehind], ["torn", commits, 1]);
  // Those who share a database do not move its log when they open it.
  const tables = await openSharedTables(path, CLOCK);
  await tables.put({ table: "t", key: "new" }, new Uint8Array(10));
  const after = lookAtLog(logOf(folder));
  assert.deepEqual([after.kind, after.commits, after.marksBehind], ["whole", commits + 1, 0]);
  assert.deepEqual(
    (await tables.list("t", "", { after: undefined, countMax: 99 })).map(({ key }) => key),
    ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "new"],
  );
  await tables.close();
});

test("A3: also where a reader keeps the log from being moved, nothing lies behind its end when writing has begun", () => {
  const { folder, commits } = tornFolder();
  const reader = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true });
  reader.exec("BEGIN; SELECT count(*) FROM rows");
  const owner = engineAt(folder, "own");
  owner.beginWriting();
  const look = lookAtLog(logOf(folder));
  // One more: that of the beginning itself.
  assert.deepEqual([look.kind, look.commits, look.marksBehind], ["whole", commits + 1, 0]);
  owner.close();
  reader.close();
});
