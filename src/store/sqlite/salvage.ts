/**
 * Continues with what a damaged write-ahead log still proves, and keeps the damaged log.
 *
 * Everything is tried first in a folder of its own: a second name of the database beside a log that was written anew. That
 * folder is only read. The database itself is touched at the end, in an order that a crash may interrupt anywhere: the
 * damaged log is copied aside, then the new one takes its place by one rename. Until then the database is refused as before.
 */
import {
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { openWriting, syncFolder } from "./connection.ts";
import type { SalvagePlan } from "./salvage-plan.ts";
import { writeAheadLog } from "./write-ahead-log.ts";

/** More than a database ever draws between two starts. */
const COUNTER_STEP = 2 ** 32;

/** A second name of the database, beside another log, for as long as `use` takes. It may only be read. */
export async function withTwin<T>(
  path: string,
  log: Buffer,
  use: (twin: string) => T | Promise<T>,
): Promise<T> {
  const folder = `${path}.salvage`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { mode: 0o700 });
  const twin = join(folder, basename(path));
  try {
    linkOrCopy(path, twin);
    writeFileSync(`${twin}-wal`, log, { mode: 0o600 });
    return await use(twin);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns where the damaged log is kept. The caller holds the lock, and has seen that what is kept is whole. */
export function replaceLog(path: string, { kept, commitsGone }: SalvagePlan, nowMs: number): string {
  const log = `${path}-wal`;
  const stamp = new Date(nowMs).toISOString().replaceAll(/[:.]/g, "-");
  const aside = `${log}.damaged-${stamp}`;
  copyFileSync(log, aside, constants.COPYFILE_EXCL);
  syncFile(aside);
  const unfinished = `${log}.new`;
  writeFileSync(unfinished, kept, { mode: 0o600 });
  syncFile(unfinished);
  syncFolder(dirname(path));
  rmSync(`${path}-shm`, { force: true });
  renameSync(unfinished, log);
  syncFolder(dirname(path));
  if (commitsGone > 0) raiseCounter(path);
  return aside;
}

/**
 * Versions that lost commits have given out are not given out again (D1). Only a process that had the
 * database open knew them, so a crash right before this does no harm.
 */
function raiseCounter(path: string): void {
  const database = openWriting(path);
  try {
    database.exec(`BEGIN IMMEDIATE; UPDATE counter SET last = last + ${COUNTER_STEP}; COMMIT`);
    writeAheadLog(database).truncate();
  } finally {
    database.close();
  }
}

/** A second name costs nothing; not every file system has them. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to, constants.COPYFILE_FICLONE);
  }
}

function syncFile(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
