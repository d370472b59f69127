/**
 * Power cuts, simulated on the bytes of a real write-ahead log: the disk writes the sectors of the commit under way in any
 * order, and the power goes before all are there. Whatever was synced before is there.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DATABASE_FILE } from "../../src/store/index.ts";
import { type LogLook, lookAtLog, LogScan } from "../../src/store/sqlite/wal-look.ts";
import { Random } from "../simulation/world/random.ts";
import { newFolder } from "./sqlite-fixtures.ts";
import { engineAt, UnmovedStore } from "./unmoved-store.ts";

const CUTS = 500;
const COMMITS = 80;
const KEYS = 8;
/** The log is moved after so many commits, and begins anew over the frames it had. */
const MOVED_EVERY = 25;
const HEADER = 32;
const SECTOR = 512;
const FRAME = 24 + 4096;

/** One commit: the disk before it, and the log after it. */
interface Step {
  readonly database: Buffer;
  readonly log: Buffer;
  readonly after: Buffer;
  /** The value of each key before, by what it is filled with. */
  readonly values: ReadonlyMap<string, number>;
  readonly key: string;
  readonly value: number;
}

function history(random: Random): readonly Step[] {
  const store = new UnmovedStore();
  store.put("first", new Uint8Array(1));
  const values = new Map([["first", 0]]);
  const steps: Step[] = [];
  const log = `${store.path}-wal`;
  for (let value = 1; value <= COMMITS; value++) {
    if (value % MOVED_EVERY === 0) store.engine.keepHouse((house) => house.log.move());
    const before = { database: readFileSync(store.path), log: readFileSync(log), values: new Map(values) };
    const key = `k${random.int(KEYS)}`;
    store.put(key, new Uint8Array(random.pick([10, 3_000, 30_000])).fill(value));
    values.set(key, value);
    steps.push({ ...before, after: readFileSync(log), key, value });
  }
  store.engine.close();
  return steps;
}

/** What of the commit under way is on the disk: frames or sectors of it, in any order, up to any length. */
function cut({ log, after }: Step, random: Random): Buffer {
  const bytes = Buffer.alloc(random.between(log.byteLength, Math.max(log.byteLength, after.byteLength)));
  log.copy(bytes);
  // A log that begins anew has its header synced before anything is written behind it.
  after.copy(bytes, 0, 0, HEADER);
  const unit = random.pick([SECTOR, FRAME]);
  const share = random.float();
  const first = unit === SECTOR ? 0 : HEADER;
  for (let at = first; at < bytes.byteLength; at += unit) {
    if (random.chance(share)) after.copy(bytes, at, at, Math.min(at + unit, bytes.byteLength));
  }
  return bytes;
}

test(`A3: ${CUTS} power cuts with frames and sectors in any order leave logs that open, with everything that was synced`, () => {
  const random = new Random("power cuts");
  const steps = history(random);
  const seen = { torn: 0, kept: 0 };
  for (let number = 0; number < CUTS; number++) {
    const step = random.pick(steps);
    const folder = newFolder();
    writeFileSync(join(folder, DATABASE_FILE), step.database);
    writeFileSync(join(folder, `${DATABASE_FILE}-wal`), cut(step, random.fork(number)));
    if (lookAtLog(join(folder, `${DATABASE_FILE}-wal`)).kind === "torn") seen.torn += 1;
    const engine = engineAt(folder, number % 20 === 0 ? "own" : "look");
    if (number % 20 === 0) engine.beginWriting();
    const page = { after: undefined, countMax: 2 * KEYS };
    const rows = engine.read({ id: 1, kind: "listRows", ask: { table: "t", prefix: "", page, nowMs: 0 } });
    const found = new Map(rows.map(({ key, value }) => [key, value[0] ?? -1]));
    engine.close();
    const isKept = found.get(step.key) === step.value;
    if (isKept) seen.kept += 1;
    const expected = isKept ? new Map([...step.values, [step.key, step.value]]) : step.values;
    assert.deepEqual(found, expected, `cut ${number}`);
  }
  assert.ok(seen.torn > CUTS / 10 && seen.kept > 0, `${seen.torn} torn, ${seen.kept} kept`);
});

function lookAt(log: Buffer): LogLook {
  const scan = new LogScan(log);
  for (let at = HEADER; at + FRAME <= log.byteLength; at += FRAME) scan.take(log.subarray(at, at + FRAME));
  return scan.end();
}

test("A3: a commit of which one sector is missing is torn, whichever it is and whatever lay there before", () => {
  for (const { log, after } of history(new Random("one sector"))) {
    const { commits } = lookAt(after);
    for (let at = 0; at < after.byteLength; at += SECTOR) {
      const sector = after.subarray(at, at + SECTOR);
      const before = Buffer.alloc(sector.byteLength);
      log.subarray(at, at + sector.byteLength).copy(before);
      if (at === 0) after.copy(before, 0, 0, HEADER);
      if (before.equals(sector)) continue;
      const bytes = Buffer.from(after);
      before.copy(bytes, at);
      const look = lookAt(bytes);
      assert.deepEqual([look.kind === "damaged", look.commits], [false, commits - 1], `sector at ${at}`);
    }
  }
});
