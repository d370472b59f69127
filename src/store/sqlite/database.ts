/**
 * The embedded database: one file, one thread, one group commit for everything that a process keeps.
 *
 * Opening checks and changes nothing that was there. Writing begins with the first write, or with
 * `beginWriting` once the caller has read the log and found it whole; so a database that is refused, for
 * whatever reason and by whichever reader, is afterwards what it was before.
 *
 * One process owns the file at a time; the lock beside it says so (D1).
 */
import { mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { HoldfastError } from "../../protocol/errors.ts";
import type { BlobStore } from "../blob-store.ts";
import type { CommitLog } from "../commit-log.ts";
import { openLogStreamStore } from "../log-stream-store.ts";
import type { ErasableStreams } from "../stream-store.ts";
import type { TableStore } from "../table-store.ts";
import { syncFile, syncFolder } from "./connection.ts";
import { sqliteBlobs } from "./sqlite-blobs.ts";
import type { ScanProgress } from "./sqlite-log.ts";
import { sqliteLog } from "./sqlite-log.ts";
import { sqliteTables } from "./sqlite-tables.ts";
import { startThread } from "./thread.ts";

export interface SqliteOptions {
  /** The clock of the streams' leases and of expiry, in milliseconds (D7). */
  readonly now: () => number;
  /** Called at intervals while the commit log is read at start. */
  readonly onProgress?: (progress: ScanProgress) => void;
}

/** The three parts share one file and one thread: closing any of them closes all. */
export interface SqliteDatabase {
  readonly log: CommitLog;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
  /** Looks at every page of the file: what is wrong with it, if anything is. */
  findDamage(): Promise<string | undefined>;
  /** Makes a new file with everything in it as of one moment; on the disk when it resolves. */
  copyTo(path: string): Promise<void>;
  /** Writes the file anew, without anything that was deleted. */
  vacuum(): Promise<void>;
  /** Resolves when a write or a sync has failed, whether or not a caller waited for it. */
  readonly failed: Promise<HoldfastError>;
  /** Fails now instead of at the first write when the file may not be written. */
  beginWriting(): Promise<void>;
  close(): Promise<void>;
}

export interface SqliteStore {
  readonly streams: ErasableStreams;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
  /** Takes what was forgotten or deleted off the disk, as far as this store has it in hand. Commits wait meanwhile. */
  shred(): Promise<void>;
  /** Resolves when a part of it has failed: then it is to be closed and opened anew (F5). */
  readonly failed: Promise<HoldfastError>;
  close(): Promise<void>;
}

/** The database's name in a data directory. */
export const DATABASE_FILE = "holdfast.db";

/** Makes the file and its folder when they are not there. Rejects with `unavailable` while another process has it. */
export function openSqlite(path: string, options: SqliteOptions): Promise<SqliteDatabase> {
  makeFolder(dirname(resolve(path)));
  return open(path, options, "own");
}

/** A promise that lies in a folder is kept only if the folder's own name is durable (A3). */
function makeFolder(folder: string): void {
  const first = mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) syncFolder(dirname(made));
}

/** For looking only: changes nothing, also beside a process that writes. Every write is refused. */
export function openSqliteReadOnly(path: string, options: SqliteOptions): Promise<SqliteDatabase> {
  return open(path, options, "look");
}

export interface SqliteStoreOptions extends SqliteOptions {
  /** Stands between the streams and their log: to count, or to watch. */
  readonly throughLog?: (log: CommitLog) => CommitLog;
}

/** Streams, tables and blobs of a data directory, ready for use. */
export async function openSqliteStore(dataDir: string, options: SqliteStoreOptions): Promise<SqliteStore> {
  const database = await openSqlite(join(dataDir, DATABASE_FILE), options);
  const { tables, blobs } = database;
  const log = options.throughLog?.(database.log) ?? database.log;
  const { promise, resolve: onFailed } = Promise.withResolvers<HoldfastError>();
  const failed = Promise.race([database.failed, promise]);
  try {
    const streams = await openLogStreamStore(log, { now: options.now, onFailed });
    await database.beginWriting();
    const close = async (): Promise<void> => {
      await streams.close();
      await database.close();
    };
    const shred = async (): Promise<void> => {
      await streams.shred();
      await database.vacuum();
    };
    return { streams, tables, blobs, shred, failed, close };
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function open(path: string, options: SqliteOptions, mode: "own" | "look"): Promise<SqliteDatabase> {
  const { now, onProgress } = options;
  const thread = await startThread({ path, lockPath: lockPathOf(path), mode });
  return {
    log: sqliteLog(thread, now, onProgress),
    tables: sqliteTables(thread, now),
    blobs: sqliteBlobs(thread, now),
    findDamage: () => thread.call("checkPages", undefined),
    copyTo: async (copy) => {
      await thread.call("copyTo", copy);
      syncFile(copy);
    },
    vacuum: () => thread.call("vacuum", undefined),
    failed: thread.failed,
    beginWriting: () => thread.call("beginWriting", undefined),
    close: () => thread.close(),
  };
}

/** `holdfast.db` is locked by `holdfast.lock`. */
export function lockPathOf(path: string): string {
  return path.endsWith(".db") ? `${path.slice(0, -3)}.lock` : `${path}.lock`;
}
