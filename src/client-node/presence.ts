/**
 * Which of the processes that share a scope are alive.
 *
 * Each has a lock file of its own, named after it, and holds it for its life. The operating system
 * gives the lock back when the process dies, however it dies, so a process that can take the lock
 * knows that its owner is gone. A file is removed only by a process that holds its lock, and nothing is ever
 * decided by the number in its name: that is for people.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import { type FileLock, lockFile, type LockOptions } from "../store/sqlite/lock.ts";
import { sqliteCode } from "../store/sqlite/sqlite-error.ts";
import { makePrivateDirectory, makePrivateFile } from "./private-files.ts";
import type { Owner } from "./table-journal-store.ts";

const SUFFIX = ".lock";
const SQLITE_BUSY = 5;
/** Ids come from the database as well, where anything may stand: they must not lead out of the folder. */
const ID = /^[0-9a-f]{32}-(?<pid>\d{1,10})$/;
/** A process that cleans up may take a new file for a dead process's; not this often. */
const TRIES_MAX = 20;

interface Presence extends Owner {
  /** From now on this process is as good as dead to the others. */
  release(): void;
}

/** Makes this process known in `directory`, and clears away what dead ones have left there. */
export function announce(directory: string): Presence {
  makePrivateDirectory(directory);
  const { id, lock } = takeOwnLock(directory);
  for (const file of readdirSync(directory)) {
    const other = file.endsWith(SUFFIX) ? file.slice(0, -SUFFIX.length) : "";
    if (other !== id && ID.test(other)) isAlive(directory, other);
  }
  return {
    id,
    isAlive: (other) => other === id || isAlive(directory, other),
    nameOf: (other) => `process ${ID.exec(other)?.groups?.["pid"] ?? "of unknown number"}`,
    release() {
      rmSync(pathOf(directory, id), { force: true });
      lock.release();
    },
  };
}

function takeOwnLock(directory: string): { readonly id: string; readonly lock: FileLock } {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const id = `${randomBytes(16).toString("hex")}-${process.pid}`;
    const path = pathOf(directory, id);
    makePrivateFile(path);
    try {
      const lock = tryLock(path);
      if (lock !== undefined && existsSync(path)) return { id, lock };
      lock?.release();
    } catch (error) {
      // Until it is locked, another process may find the file without an owner and remove it.
      if (existsSync(path)) throw error;
    }
  }
  throw new HoldfastError("unavailable", `no lock file could be made in ${directory}; try again`);
}

function isAlive(directory: string, id: string): boolean {
  if (!ID.test(id)) return false;
  const path = pathOf(directory, id);
  try {
    if (!existsSync(path)) return false;
    // Shared: several may look at the same moment, and must not take each other for the owner.
    const lock = tryLock(path, { shared: true });
    if (lock === undefined) return true;
    rmSync(path, { force: true });
    lock.release();
    return false;
  } catch (error) {
    // Another process that looked has removed it meanwhile.
    if (!existsSync(path)) return false;
    throw error;
  }
}

/** Undefined when another process holds it. */
export function tryLock(path: string, options: LockOptions = {}): FileLock | undefined {
  try {
    return lockFile(path, options);
  } catch (error) {
    if (error instanceof HoldfastError && sqliteCode(error.cause) === SQLITE_BUSY) return undefined;
    throw error;
  }
}

function pathOf(directory: string, id: string): string {
  return join(directory, id + SUFFIX);
}
