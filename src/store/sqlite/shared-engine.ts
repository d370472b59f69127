/**
 * A database that several processes write, within the thread of one of them: journals of the clients
 * that work in one directory.
 *
 * Each process has its own connection and commits its own groups; SQLite lets one of them write at a
 * time. Nothing is remembered between two transactions, not even the counter: another process may have
 * drawn from it. A process that owns a database alone, such as a server, and those that share one keep
 * each other out by the lock file.
 *
 * The database file is never opened by other means than SQLite: closing it would drop the locks that a
 * second client in this process holds on it.
 */
import { chmodSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import type { Answer, ReadCalls, Request, WriteCalls } from "./calls.ts";
import { abandon, checkTables, createDatabase, openWriting } from "./connection.ts";
import { type Parts, readFailure, run, type Served } from "./engine.ts";
import { checkLog, damagedFile, fileBytes } from "./file-check.ts";
import { type FileLock, lockFile, type LockOptions, makeLockFile } from "./lock.ts";
import { rowsOf } from "./rows.ts";
import { APPLICATION_ID, DATABASE_FORMAT } from "./schema.ts";
import { sqliteCode, writeFailure } from "./sqlite-error.ts";
import { lookAtLog, settleLog } from "./wal-look.ts";

/** Another process that writes is done in milliseconds; a disk under load may make it seconds. */
const WRITE_WAIT_MS = 10_000;
/** Making a database takes milliseconds; a process that has it for longer owns it alone. */
const OWNER_WAIT_MS = 3_000;
const POLL_MS = 50;
const BUSY = 5;
/** The write-ahead log is moved when it has grown to this: 4 MiB. */
const MOVE_PAGES = 1_000;
/** A journal of which a part is gone does not know any more which tools have run: none is salvaged. */
const RESTORE =
  "Restore it from a backup, or move it and its log away: conversations in it are lost then, and turns that were under way are taken over from their names";

export class SharedEngine {
  readonly #path: string;
  readonly #lock: FileLock;
  readonly #parts: Parts;
  #failure: HoldfastError | undefined;
  /** Keeps the write-ahead log when writing failed. */
  #bystander: DatabaseSync | undefined;

  constructor(path: string, lockPath: string) {
    this.#path = path;
    this.#lock = joinOthers(path, lockPath);
    try {
      this.#parts = rowsOf(openShared(path));
    } catch (error) {
      this.#lock.release();
      throw error;
    }
  }

  /** There is nothing to begin: what one process looks at, another one writes. */
  beginWriting(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** All in one transaction, synced when this returns. */
  write(requests: readonly Request<keyof WriteCalls>[]): readonly Served[] {
    if (this.#failure !== undefined) throw this.#failure;
    const { database, counter, writes } = this.#parts;
    this.#begin();
    try {
      counter.reload();
      const served = requests.map((request) => ({ request, value: run(writes, request) }));
      counter.save();
      database.exec("COMMIT");
      this.#moveLog();
      return served;
    } catch (error) {
      throw this.#fail(error);
    }
  }

  /** SQLite would do it as well, and not tell when the sync fails. */
  #moveLog(): void {
    const { log } = this.#parts.house;
    try {
      const { pages, movedPages } = log.length();
      if (pages > MOVE_PAGES && movedPages < pages) log.move();
    } catch (error) {
      // What was just committed is durable all the same.
      this.#fail(error);
    }
  }

  /**
   * Nothing is known about the disk now, and nothing is tried again on this handle (F5); its open transaction would keep
   * every other process from writing.
   */
  #fail(cause: unknown): HoldfastError {
    if (this.#failure !== undefined) return this.#failure;
    this.#failure = new HoldfastError("unavailable", writeFailure(cause), { cause });
    this.#bystander = abandon(this.#parts.database, this.#path);
    return this.#failure;
  }

  read<K extends keyof ReadCalls>(request: Request<K>): Answer<K> {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      return run(this.#parts.reads, request);
    } catch (error) {
      throw readFailure(this.#path, error);
    }
  }

  close(): void {
    this.#failure ??= new HoldfastError("unavailable", "the database is closed");
    if (this.#parts.database.isOpen) this.#parts.database.close();
    this.#bystander?.close();
    this.#lock.release();
  }

  /** Waits for other processes; that one of them is slow says nothing about the disk. */
  #begin(): void {
    try {
      this.#parts.database.exec("BEGIN IMMEDIATE");
    } catch (error) {
      if (sqliteCode(error) !== BUSY) throw this.#fail(error);
      throw new HoldfastError("unavailable", `another process keeps ${this.#path} busy; try again`, {
        cause: error,
      });
    }
  }
}

/**
 * The lock, shared with the other processes. The first one, while it is alone, makes the database when it is missing, and looks at the
 * log that a crash may have left. Who finds others there needs to do neither: one of them has done it.
 */
function joinOthers(path: string, lockPath: string): FileLock {
  makeLockFile(lockPath);
  const untilMs = performance.now() + OWNER_WAIT_MS;
  for (;;) {
    const alone = lockOrSee(lockPath);
    try {
      if (alone !== undefined) makeReady(path);
    } finally {
      alone?.release();
    }
    const isLastTry = performance.now() >= untilMs;
    const wish = { shared: true, waitMs: POLL_MS };
    const shared = isLastTry ? lockFile(lockPath, wish) : lockOrSee(lockPath, wish);
    if (shared === undefined) continue;
    if (alone !== undefined || isReadyByOthers(path)) return shared;
    shared.release();
    if (isLastTry) throw new HoldfastError("unavailable", `other processes keep ${path} busy; try again`);
    // The lock was free, so nothing has waited in this round.
    pause(POLL_MS);
  }
}

/** Blocks this thread, which does nothing else. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, ms);
}

/**
 * The one that was alone may just have left, having refused what it found. While others write, a look may show damage that is
 * none: then the next try finds out.
 */
function isReadyByOthers(path: string): boolean {
  return fileBytes(path) !== undefined && lookAtLog(`${path}-wal`).kind !== "damaged";
}

function makeReady(path: string): void {
  if (fileBytes(path) === undefined) {
    createDatabase(path);
    // The files that SQLite puts beside it get the same mode.
    chmodSync(path, 0o600);
    return;
  }
  const log = checkLog(path, RESTORE);
  checkHeader(path);
  settleLog(`${path}-wal`, log);
}

/** Undefined when others are in the way. */
function lockOrSee(lockPath: string, options: LockOptions = {}): FileLock | undefined {
  try {
    return lockFile(lockPath, options);
  } catch (error) {
    if (error instanceof HoldfastError && sqliteCode(error.cause) === BUSY) return undefined;
    throw error;
  }
}

function openShared(path: string): DatabaseSync {
  checkHeader(path);
  const database = openWriting(path);
  try {
    checkTables(database, path);
    database.exec(`PRAGMA busy_timeout = ${WRITE_WAIT_MS}`);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Whose file it is, and how old, before anything of it may change. */
function checkHeader(path: string): void {
  const { applicationId, format } = readHeader(path);
  if (applicationId !== APPLICATION_ID) {
    throw new HoldfastError(
      "stream_failed",
      `${path} is the database of another program; nothing was changed. Name another directory`,
    );
  }
  if (format !== DATABASE_FORMAT) {
    throw new HoldfastError(
      "unsupported_version",
      `${path} has format ${format}, and this version of Holdfast knows ${DATABASE_FORMAT}; nothing was changed. Install the version that wrote it`,
    );
  }
}

function readHeader(path: string): { readonly applicationId: number; readonly format: number } {
  const database = new DatabaseSync(path, { readOnly: true, timeout: WRITE_WAIT_MS });
  try {
    return {
      applicationId: Number(database.prepare("PRAGMA application_id").get()?.["application_id"]),
      format: Number(database.prepare("PRAGMA user_version").get()?.["user_version"]),
    };
  } catch (error) {
    throw damagedFile(path, messageOf(error), error);
  } finally {
    database.close();
  }
}
