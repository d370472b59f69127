/** What a salvage keeps of a damaged write-ahead log is whole, and as much as can be proved. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { DATABASE_FILE } from "../../src/store/index.ts";
import { findLost, keptEnd } from "../../src/store/sqlite/lost-commits.ts";
import { planSalvage, type SalvagePlan } from "../../src/store/sqlite/salvage-plan.ts";
import { replaceLog, withTwin } from "../../src/store/sqlite/salvage.ts";
import { frameOffset, readFrameHeader } from "../../src/store/sqlite/wal-frames.ts";
import { lookAtLog } from "../../src/store/sqlite/wal-look.ts";
import { Random } from "../simulation/world/random.ts";
import { contentOf } from "./sqlite-fixtures.ts";
import { copyOf, engineAt, killedWithStreams, put, UnmovedStore } from "./unmoved-store.ts";

const PAGE = 4096;
const FRAME = 24 + PAGE;
const KEYS = 6;
const COMMITS = 30;
const OLDER_COMMITS = 25;

type Values = ReadonlyMap<string, number>;

/** A database with its log, and what was in it after each commit of the log. */
interface Past {
  readonly folder: string;
  /** The first one: before the log. */
  readonly states: readonly Values[];
  /** The last frame of each commit. */
  readonly ends: readonly number[];
  readonly movedAt: number;
}

/** With a `movedAt` above 0 the log is moved into the database at that commit, and stays as it is because a reader is in its middle. */
function past(random: Random, movedAt = 0): Past {
  const store = new UnmovedStore();
  const path = join(store.folder, DATABASE_FILE);
  // The log begins anew over the frames of an older one.
  for (let at = 0; at < OLDER_COMMITS; at++) store.put("first", new Uint8Array(20_000));
  store.engine.keepHouse(({ log }) => log.move());
  const states: Values[] = [new Map([["first", 0]])];
  const ends: number[] = [];
  let reader: DatabaseSync | undefined;
  for (let value = 1; value <= COMMITS; value++) {
    const key = `k${random.int(KEYS)}`;
    store.put(key, new Uint8Array(random.pick([10, 3_000, 20_000])).fill(value));
    states.push(new Map([...(states.at(-1) ?? []), [key, value]]));
    ends.push(lookAtLog(`${path}-wal`).endFrame);
    if (value !== movedAt) continue;
    reader = new DatabaseSync(path, { readOnly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM rows").get();
    store.engine.keepHouse(({ log }) => log.move());
  }
  const folder = store.copy();
  reader?.close();
  store.engine.close();
  return { folder, states, ends, movedAt };
}

const logOf = (folder: string): string => join(folder, `${DATABASE_FILE}-wal`);

/** The page of each frame. */
function pagesOf(folder: string): readonly number[] {
  const log = readFileSync(logOf(folder));
  const count = Math.floor((log.byteLength - 32) / FRAME);
  return Array.from(
    { length: count },
    (_, at) => readFrameHeader(log.subarray(frameOffset(at + 1, PAGE))).page,
  );
}

function damaged(folder: string, change: (log: Buffer) => void): string {
  const copy = copyOf(folder);
  const log = readFileSync(logOf(copy));
  change(log);
  writeFileSync(logOf(copy), log);
  return copy;
}

function valuesIn(twin: string): Values {
  const database = new DatabaseSync(twin, { readOnly: true });
  const check = database.prepare("PRAGMA integrity_check").get()?.["integrity_check"];
  assert.equal(check, "ok");
  const rows = database.prepare("SELECT key, hex(substr(value, 1, 1)) AS value FROM rows").all();
  database.close();
  return new Map(rows.map(({ key, value }) => [String(key), Number.parseInt(String(value), 16)]));
}

const keptValues = (path: string, plan: SalvagePlan): Promise<Values> =>
  withTwin(path, plan.kept, (twin) => valuesIn(twin));

test("A3: damage of the header, of salts and of sums leaves every page whole: nothing is gone", async () => {
  const { folder, states, ends } = past(new Random("one byte"));
  const inFrames = [1, 2, ends[3] ?? 0, (ends[8] ?? 0) + 1].flatMap((frame) =>
    [8, 15, 16, 23].map((at) => frameOffset(frame, PAGE) + at),
  );
  for (const at of [...Array(32).keys(), ...inFrames]) {
    const copy = damaged(folder, (log) => log.writeUInt8((log.readUInt8(at) + 1 + (at % 200)) % 256, at));
    const path = join(copy, DATABASE_FILE);
    assert.equal(lookAtLog(logOf(copy)).kind, "damaged", `byte ${at}`);
    const before = contentOf(copy);
    const plan = planSalvage(path);
    assert.deepEqual([plan.commitsKept, plan.commitsGone], [COMMITS, 0], `byte ${at}`);
    assert.deepEqual(await keptValues(path, plan), states.at(-1), `byte ${at}`);
    assert.deepEqual(contentOf(copy), before, "a plan and a trial change nothing");
  }
});

test("A3: behind a wrong header the log is told from the longer one that was there before", async () => {
  const store = new UnmovedStore();
  for (let at = 0; at < 20; at++) store.put("k", new Uint8Array(20_000).fill(1));
  store.engine.keepHouse(({ log }) => log.move());
  for (const value of [2, 3, 4]) store.put("k", new Uint8Array(10).fill(value));
  const copy = damaged(store.copy(), (log) => log.writeUInt8(log.readUInt8(20) ^ 1, 20));
  store.engine.close();
  const plan = planSalvage(join(copy, DATABASE_FILE));
  assert.deepEqual([plan.commitsKept, plan.commitsGone], [3, 0]);
  assert.deepEqual(await keptValues(join(copy, DATABASE_FILE), plan), new Map([["k", 4]]));
});

test("A3: a page that a later commit has whole again is not missed, unless its number is in doubt", async () => {
  const { folder, states } = past(new Random("hot page"));
  const pages = pagesOf(folder);
  const hot = 2 + pages.findIndex((page, at) => at > 0 && pages.indexOf(page, at + 1) !== -1);
  const spoiled = damaged(folder, (bytes) => spoil(bytes, hot - 1));
  const plan = planSalvage(join(spoiled, DATABASE_FILE));
  assert.equal(plan.commitsGone, 0);
  assert.deepEqual(await keptValues(join(spoiled, DATABASE_FILE), plan), states.at(-1));
  // The number of another page that is written later, too: taken at its word, the right page would be missed.
  const other = pages.findIndex((page, at) => at > hot && page !== pages[hot - 2]);
  const renumbered = damaged(folder, (bytes) =>
    bytes.writeUInt32BE(pages[other] ?? 0, frameOffset(hot - 1, PAGE)),
  );
  assert.ok(planSalvage(join(renumbered, DATABASE_FILE)).commitsGone > 0);
});

test("A3: whatever is damaged, what is kept is the state after a commit, and all commits before the damage are in it", async (t) => {
  const seen = { gone: 0, whole: 0, refused: 0 };
  const pasts = [0, 5, 15, 25].map((movedAt) => past(new Random("past"), movedAt));
  for (let seed = 0; seed < 100; seed++) {
    const random = new Random(`salvage ${seed}`);
    const { folder, states, ends, movedAt } = random.pick(pasts);
    const places: number[] = [];
    const copy = damaged(folder, (log) => {
      for (let hits = random.between(1, 3); hits > 0; hits--) {
        const at = random.between(32, log.byteLength - 1);
        const length = Math.min(random.pick([1, 4, 40, 512, 5_000]), log.byteLength - at);
        random.bytes(length).forEach((byte, offset) => log.writeUInt8(byte, at + offset));
        places.push(at);
      }
    });
    const path = join(copy, DATABASE_FILE);
    if (lookAtLog(logOf(copy)).kind !== "damaged") continue;
    const firstBad = 1 + Math.floor((Math.min(...places) - 32) / FRAME);
    const certain = ends.filter((end) => end < firstBad).length;
    let plan: SalvagePlan;
    try {
      plan = planSalvage(path);
    } catch (error) {
      assert.ok(error instanceof HoldfastError && movedAt > 0, `seed ${seed}: ${String(error)}`);
      assert.match(error.message, /can be proved whole: .*Nothing was changed/);
      seen.refused += 1;
      continue;
    }
    const kept = await keptValues(path, plan);
    const reached = states.findLastIndex((state) => isDeepStrictEqual(state, kept));
    assert.ok(reached >= certain, `seed ${seed}: the state after ${reached}, ${certain} are certain`);
    if (plan.commitsGone > 0) seen.gone += 1;
    else seen.whole += 1;
    // Of the newest commit alone there may be nothing left that tells of it.
    if (plan.commitsGone === 0) assert.ok(reached >= COMMITS - 1, `seed ${seed}`);
  }
  t.diagnostic(JSON.stringify(seen));
  assert.ok(seen.gone > 10 && seen.whole > 10);
});

test("A3: a damaged first sector hides the log's salts, and a salvage still tells all of its commits", async () => {
  const { folder, states } = past(new Random("first sector"));
  for (const byte of [0, 0x55]) {
    const copy = damaged(folder, (log) => log.fill(byte, 0, 512));
    const path = join(copy, DATABASE_FILE);
    assert.equal(lookAtLog(logOf(copy)).kind, "damaged");
    const plan = planSalvage(path);
    assert.equal(plan.commitsKept, 0);
    assert.ok(plan.commitsGone >= COMMITS, `${plan.commitsGone} of ${COMMITS}`);
    assert.deepEqual(await keptValues(path, plan), states[0]);
  }
  const moved = damaged(past(new Random("first sector"), 5).folder, (log) => log.fill(0, 0, 512));
  assert.throws(() => planSalvage(join(moved, DATABASE_FILE)), /can be proved whole/);
});

test("A3: a block that reads as zeros is no page of the database: the commits before it are kept", async () => {
  const { folder, states, ends } = past(new Random("zeros"));
  const copy = damaged(folder, (log) => {
    const start = frameOffset((ends[3] ?? 0) + 1, PAGE);
    log.fill(0, start, start + FRAME);
  });
  const plan = planSalvage(join(copy, DATABASE_FILE));
  assert.equal(plan.commitsKept, 4);
  assert.deepEqual(await keptValues(join(copy, DATABASE_FILE), plan), states[4]);
});

test("A3: where the log was moved past the damage, a page whose number is lost may be newer than what is kept", async () => {
  const store = new UnmovedStore();
  const write = (value: number, ...keys: readonly string[]): void => {
    const writes = keys.map((key) => put(key, new Uint8Array(3_000).fill(value)));
    store.write("batch", { writes, nowMs: 0 });
  };
  write(1, "a", "b", "c", "d", "e", "f", "g", "h");
  store.engine.keepHouse(({ log }) => log.truncate());
  write(2, "e", "f", "g", "h");
  const kept = lookAtLog(join(store.folder, `${DATABASE_FILE}-wal`)).endFrame;
  write(3, "d");
  write(4, "h");
  const unmoved = store.copy();
  // The pages are in the database now, and still in the log: the next commit would begin it anew.
  store.engine.keepHouse(({ log }) => log.move());
  const moved = store.copy();
  store.engine.close();
  const pages = pagesOf(unmoved);
  const isNew = (page: number, at: number): boolean => at >= kept && !pages.slice(0, kept).includes(page);
  // All other pages behind the damage have an older content in the commit that is kept.
  assert.equal(pages.filter(isNew).length, 1);
  const lost = 1 + pages.findIndex(isNew);
  const plan = (folder: string): SalvagePlan =>
    planSalvage(
      join(
        damaged(folder, (log) => wipe(log, lost)),
        DATABASE_FILE,
      ),
    );
  assert.equal(plan(unmoved).commitsKept, 1);
  assert.deepEqual(
    await keptValues(join(unmoved, DATABASE_FILE), plan(unmoved)),
    new Map("a b c d e f g h".split(" ").map((key) => [key, key < "e" ? 1 : 2])),
  );
  assert.throws(() => plan(moved), /can be proved whole/);
});

/** A part of a frame's page. */
function spoil(log: Buffer, frame: number): void {
  log.fill(0x55, frameOffset(frame, PAGE) + 24, frameOffset(frame, PAGE) + 24 + 300);
}

/** A frame's header with its page number, and a part of its page. */
function wipe(log: Buffer, frame: number): void {
  log.fill(0x55, frameOffset(frame, PAGE), frameOffset(frame, PAGE) + 600);
}

test("A3: a salvage names the streams that lost something, keeps the damaged log, and draws no version again", async () => {
  const copy = damaged(await killedWithStreams(8), (log) => wipe(log, 12));
  const path = join(copy, DATABASE_FILE);
  const damagedLog = readFileSync(logOf(copy));
  const plan = planSalvage(path);
  assert.ok(plan.commitsKept > 0 && plan.commitsGone > 4);
  const end = await withTwin(path, plan.kept, (twin) => keptEnd(twin));
  const lost = await withTwin(path, plan.everything, (twin) => findLost(twin, end, () => undefined));
  const names = lost.streams.map(({ name }) => name?.idempotencyKey);
  assert.ok(names.includes("s7") && !names.includes("s0"), names.join(" "));
  assert.deepEqual(lost.streams.at(-1)?.events, { first: 1, last: 100 });

  const aside = replaceLog(path, plan, Date.UTC(2026, 0, 2));
  assert.equal(aside, `${path}-wal.damaged-2026-01-02T00-00-00-000Z`);
  assert.deepEqual(readFileSync(aside), damagedLog);
  assert.deepEqual(
    readdirSync(copy).filter((file) => file.includes("salvage") || file.includes("new")),
    [],
  );
  const engine = engineAt(copy, "own");
  const writes = [put("k", new Uint8Array(1))];
  const [written] = engine.write([{ id: 1, kind: "batch", ask: { writes, nowMs: 0 } }]);
  engine.close();
  // The beginning of writing draws a version as well.
  assert.deepEqual(written?.value, { kind: "written", version: end.counter + 2 ** 32 + 2 });
});

test("A3: a salvage that is interrupted before the new log is in place leaves a database that is refused as before", async () => {
  const copy = damaged(await killedWithStreams(8), (log) => wipe(log, 12));
  const path = join(copy, DATABASE_FILE);
  await assert.rejects(
    withTwin(path, planSalvage(path).kept, () => Promise.reject(new Error("killed"))),
    /killed/,
  );
  // What a kill right before the rename would leave.
  writeFileSync(`${path}-wal.new`, planSalvage(path).kept);
  assert.throws(() => engineAt(copy, "own"), /is damaged: frame 12/);
  replaceLog(path, planSalvage(path), 0);
  engineAt(copy, "own").close();
});
