/**
 * One owner per file, also between processes: a transaction held open on a lock database.
 *
 * The operating system gives the lock back when the process dies, however it dies, so there is never
 * a stale one to clean up and no pid to guess about. Nothing is ever written to the file.
 *
 * The file must not be opened by other means in the process that holds it: POSIX drops a process's
 * locks when it closes any descriptor of the file. It is never deleted: the process that waits for the
 * old file and the one that makes a new file would both own it.
 */
import { chmodSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import { sqliteCode } from "./sqlite-error.ts";

export interface FileLock {
  /** Gives the lock back; a second call does nothing. */
  release(): void;
}

export interface LockOptions {
  /** How long to wait, blocking this thread, for an owner that is about to leave. Default: not at all. */
  readonly waitMs?: number;
  /** Many may share a lock while no process owns it. Default: own it alone. */
  readonly shared?: boolean;
}

const BUSY = 5;

/** Rejects by throwing `unavailable` when the lock is held elsewhere. The folder must exist. */
export function lockFile(path: string, { waitMs = 0, shared = false }: LockOptions = {}): FileLock {
  const database = openLock(path, waitMs, shared);
  try {
    if (shared) database.exec("BEGIN; SELECT count(*) FROM sqlite_schema");
    // With a journal on the disk, SQLite would leave one behind when the process is killed.
    else database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (sqliteCode(error) !== BUSY) throw cannotLock(path, error);
    throw new HoldfastError(
      "unavailable",
      `${path} is held by another process; stop that process, or use another directory`,
      { cause: error },
    );
  }
  return {
    release() {
      if (database.isOpen) database.close();
    },
  };
}

/** A shared lock writes nothing, and must work where nothing may be written. */
function openLock(path: string, timeout: number, readOnly: boolean): DatabaseSync {
  try {
    if (!readOnly) makeLockFile(path);
    return new DatabaseSync(path, { timeout, readOnly });
  } catch (error) {
    throw cannotLock(path, error);
  }
}

/**
 * A lock that others may open is one that they may hold. Made by SQLite, which knows when it may close a descriptor: another
 * thread may have the lock already.
 */
export function makeLockFile(path: string): void {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return;
  new DatabaseSync(path).close();
  chmodSync(path, 0o600);
}

function cannotLock(path: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    "unavailable",
    `${path} cannot be locked; check that its folder exists and may be written, and that it is a lock file of Holdfast`,
    { cause },
  );
}
