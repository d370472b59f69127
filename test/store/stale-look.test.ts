/** What was seen of a write-ahead log before its lock was held is not what the log is cut by. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { DATABASE_FILE } from "../../src/store/index.ts";
import { frameOffset } from "../../src/store/sqlite/wal-frames.ts";
import { lookAtLog } from "../../src/store/sqlite/wal-look.ts";
import { inherited } from "../inherited.ts";
import { UnmovedStore } from "./unmoved-store.ts";

const PAGE = 4096;
const COMMITS = 40;
/** The look reads the log to its end: it takes long enough to be seen. Nothing of it is on the disk. */
const LOG_BYTES = 2 ** 28;
const LOCK = "holdfast.lock";

const OWNER = `
  import { openSqlite } from ${JSON.stringify(new URL("../../src/store/index.ts", import.meta.url).href)};
  const database = await openSqlite(process.argv[1], { now: Date.now });
  await database.beginWriting();
  const rows = await database.tables.list("t", "", { after: undefined, countMax: 1_000 });
  console.log(rows.length);
  await database.close();
`;

function withCommits(count: number): string {
  const store = new UnmovedStore();
  for (let at = 0; at < count; at++) store.put(`k${at}`, new Uint8Array(20_000));
  const folder = store.copy();
  store.engine.close();
  return folder;
}

/** A folder without a lock, and a log whose newest commit is torn. */
function tornFolder(): string {
  const folder = withCommits(3);
  const log = join(folder, `${DATABASE_FILE}-wal`);
  const { endFrame } = lookAtLog(log);
  const bytes = readFileSync(log);
  bytes.fill(0, frameOffset(endFrame - 1, PAGE), frameOffset(endFrame, PAGE));
  writeFileSync(log, bytes);
  assert.equal(lookAtLog(log).kind, "torn");
  truncateSync(log, LOG_BYTES);
  return folder;
}

function hasOpen({ pid }: ChildProcess, file: string): boolean {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).some((fd) => {
    try {
      return readlinkSync(join(folder, fd)) === file;
    } catch {
      return false; // closed meanwhile
    }
  });
}

/** A process that stands still while it looks at the log of a folder that it has no lock of. */
async function stoppedInLook(): Promise<{ readonly owner: ChildProcess; readonly folder: string }> {
  for (;;) {
    const folder = tornFolder();
    const log = join(folder, `${DATABASE_FILE}-wal`);
    const owner = spawn(process.execPath, ["-e", OWNER, join(folder, DATABASE_FILE)], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: process.env["PATH"], ...inherited() },
    });
    const isLooking = (): boolean => hasOpen(owner, log) && !existsSync(join(folder, LOCK));
    while (!isLooking() && !existsSync(join(folder, LOCK))) await new Promise(setImmediate);
    owner.kill("SIGSTOP");
    if (isLooking()) return { owner, folder };
    owner.kill("SIGKILL");
  }
}

test("A3: what another process has acknowledged between a look and the lock is not cut off", async (t) => {
  if (process.platform !== "linux") return t.diagnostic("what a process has open is seen on Linux only");
  const { owner, folder } = await stoppedInLook();
  // Another owner came, wrote, and was killed: its log is longer than what the first one has seen.
  const other = withCommits(COMMITS);
  for (const suffix of ["", "-wal"]) {
    renameSync(join(other, DATABASE_FILE + suffix), join(folder, DATABASE_FILE + suffix));
  }
  writeFileSync(join(folder, LOCK), "");
  owner.kill("SIGCONT");
  assert.ok(owner.stdout !== null);
  assert.equal((await text(owner.stdout)).trim(), String(COMMITS));
});
