/**
 * The database within its thread: first looked at, then written, one transaction per group.
 *
 * A group is whatever requests wait at the same time: appends, batches, blobs of all parts of the
 * process. They share one transaction and one sync, and are answered after it (A3). What a request
 * expects is judged before it writes, so a refused one changes nothing for the others.
 *
 * A write or a sync that fails ends the engine: nothing is known about the disk then, nothing is tried
 * again on this handle, and every later request is refused (F5).
 */
import { rmSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import type { Answer, CallKind, Handlers, ReadCalls, Request, ThreadStart, WriteCalls } from "./calls.ts";
import {
  abandon,
  checkTables,
  createDatabase,
  openBeside,
  openUnwritten,
  openWriting,
} from "./connection.ts";
import { checkFile, checkNothingLeft, damagedFile, fileBytes } from "./file-check.ts";
import type { FileLock } from "./lock.ts";
import { lockFile } from "./lock.ts";
import { rowsOf } from "./rows.ts";
import { sqliteCode, writeFailure } from "./sqlite-error.ts";
import { type LogLook, settleLog } from "./wal-look.ts";

export type Parts = ReturnType<typeof rowsOf>;

/** What became of one request of a group. */
export interface Served {
  readonly request: Request;
  readonly value: unknown;
}

export class Engine {
  readonly #path: string;
  readonly #mode: ThreadStart["mode"];
  readonly #lock: FileLock | undefined;
  readonly #lockPath: string;
  /** There was no index of the write-ahead log before we looked. */
  readonly #madeIndex: boolean;
  #parts: Parts;
  /** The write-ahead log as it was found, until it is written on. */
  #log: LogLook | undefined;
  #isWriting = false;
  #failure: HoldfastError | undefined;
  /** Keeps the write-ahead log when writing failed. */
  #bystander: DatabaseSync | undefined;
  readonly #onFailed: (failure: HoldfastError) => void;

  /** `onFailed` is called once, also when no request waited for what failed. */
  constructor(
    { path, lockPath, mode }: ThreadStart,
    onFailed: (failure: HoldfastError) => void = () => undefined,
  ) {
    this.#onFailed = onFailed;
    this.#path = path;
    this.#lockPath = lockPath;
    this.#mode = mode;
    // Reading a file that this process has open would drop SQLite's locks on it: look at the lock first.
    const isLocked = fileBytes(lockPath) !== undefined;
    if (!isLocked) this.#log = checkThere(path, mode);
    this.#lock = mode === "own" ? lockFile(lockPath) : shareIfFree(lockPath, isLocked);
    this.#madeIndex = isIndexMissing(path);
    try {
      this.#parts = this.#openFirst(mode, isLocked);
    } catch (error) {
      this.#lock?.release();
      throw error;
    }
  }

  get isWriting(): boolean {
    return this.#isWriting;
  }

  beginWriting(): void {
    this.#assertUsable();
    if (this.#isWriting) return;
    if (this.#mode === "look") {
      throw new HoldfastError("unavailable", "the database was opened for looking only; nothing was written");
    }
    this.#parts.database.close();
    try {
      if (this.#log !== undefined) settleLog(`${this.#path}-wal`, this.#log);
      const parts = rowsOf(openWriting(this.#path));
      this.#parts = parts;
      this.#isWriting = true;
      // What a process left behind that was killed, or whose sync failed, may be nowhere but in the memory of
      // the system. Moved into the database it is on the disk, before any client learns of it (A3, F5).
      parts.house.log.moveAll();
      this.#transaction(() => {
        parts.removeUnnamed();
        // One write for certain: a disk that takes none is found here, before a client stands on it.
        parts.counter.next();
      });
    } catch (error) {
      throw this.fail(error);
    }
  }

  /** All in one transaction, synced when this returns. */
  write(requests: readonly Request<keyof WriteCalls>[]): readonly Served[] {
    this.beginWriting();
    const { writes } = this.#parts;
    return this.#transaction(() => requests.map((request) => ({ request, value: run(writes, request) })));
  }

  read<K extends keyof ReadCalls>(request: Request<K>): Answer<K> {
    this.#assertUsable();
    try {
      return run(this.#parts.reads, request);
    } catch (error) {
      throw readFailure(this.#path, error);
    }
  }

  /** Work that no request waits for. A failure counts as that of a commit. */
  keepHouse(work: (house: Parts["house"]) => void): void {
    if (this.#failure !== undefined || !this.#isWriting) return;
    try {
      work(this.#parts.house);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Nothing is known about the disk any more: every later request is refused (F5). */
  fail(cause: unknown): HoldfastError {
    if (this.#failure !== undefined) return this.#failure;
    const message = cause instanceof HoldfastError ? cause.message : writeFailure(cause);
    this.#failure = new HoldfastError("unavailable", message, { cause });
    if (this.#isWriting) this.#bystander = abandon(this.#parts.database, this.#path);
    this.#onFailed(this.#failure);
    return this.#failure;
  }

  close(): void {
    this.#failure ??= new HoldfastError("unavailable", "the database is closed");
    if (this.#parts.database.isOpen) this.#parts.database.close();
    this.#bystander?.close();
    if (!this.#isWriting) this.#removeMadeIndex();
    this.#lock?.release();
  }

  /** An owner that came while we looked works with it: then it stays. Without the lock only its absence shows that there is none. */
  #removeMadeIndex(): void {
    const isAlone = this.#lock !== undefined || fileBytes(this.#lockPath) === undefined;
    if (this.#madeIndex && isAlone) rmSync(`${this.#path}-shm`, { force: true });
  }

  #openFirst(mode: ThreadStart["mode"], isLocked: boolean): Parts {
    if (mode === "look" && this.#lock === undefined && isLocked) return rowsOf(openBeside(this.#path));
    // Also where it was done before: until the lock was ours, another process may have written and been killed.
    if (this.#lock !== undefined) this.#log = checkThere(this.#path, mode);
    if (fileBytes(this.#path) === undefined) createDatabase(this.#path);
    return this.#openUnwritten();
  }

  #openUnwritten(): Parts {
    let database: DatabaseSync | undefined;
    try {
      database = openUnwritten(this.#path, this.#log);
      checkTables(database, this.#path);
      return rowsOf(database);
    } catch (error) {
      database?.close();
      this.#removeMadeIndex();
      throw isDamage(error) ? damagedFile(this.#path, messageOf(error), error) : error;
    }
  }

  #transaction<T>(work: () => T): T {
    const { database, counter } = this.#parts;
    try {
      database.exec("BEGIN IMMEDIATE");
      const result = work();
      counter.save();
      database.exec("COMMIT");
      return result;
    } catch (error) {
      throw this.fail(error);
    }
  }

  #assertUsable(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** Any kind of request, by the function of its kind. */
export function run<C extends CallKind, K extends C>(handlers: Handlers<C>, request: Request<K>): Answer<K> {
  return handlers[request.kind](request.ask);
}

/** A process that only looks also does so beside an owner, but keeps one from starting meanwhile. */
function shareIfFree(lockPath: string, isLocked: boolean): FileLock | undefined {
  if (!isLocked) return undefined;
  try {
    return lockFile(lockPath, { shared: true });
  } catch {
    return undefined;
  }
}

/** Throws unless there is a database of ours, or nothing and one may be made. Returns what is in the log of one that is there. */
function checkThere(path: string, mode: ThreadStart["mode"]): LogLook | undefined {
  if (fileBytes(path) !== undefined) return checkFile(path);
  if (mode === "look") throw missing(path);
  checkNothingLeft(path);
  return undefined;
}

function isIndexMissing(path: string): boolean {
  return (fileBytes(`${path}-wal`) ?? 0) > 0 && fileBytes(`${path}-shm`) === undefined;
}

function missing(path: string): HoldfastError {
  return new HoldfastError(
    "not_found",
    `there is no database at ${path}; name the data directory of a server`,
  );
}

/** Damage is for good; anything else may be over at the next try. */
export function readFailure(path: string, error: unknown): HoldfastError {
  if (isDamage(error)) return damagedFile(path, messageOf(error), error);
  return HoldfastError.from(error, "unavailable", `the database could not be read: ${messageOf(error)}`);
}

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === 11 || code === 26;
}
