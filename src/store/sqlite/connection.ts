/**
 * Connections to a database file: made, looked at, written.
 *
 * To look at a database changes nothing, not even the files beside it: without commits in a write-ahead
 * log the file is opened as immutable, with one its index is read or kept in memory. Writing begins only after
 * everything was checked, and only with the settings that durability rests on, each read back (A3).
 */
import { chmodSync, closeSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import { checkNothingLeft, damagedFile, fileBytes } from "./file-check.ts";
import { APPLICATION_ID, DATABASE_FORMAT, PAGE_BYTES, SCHEMA, TABLES_TO_CHECK } from "./schema.ts";
import type { LogLook } from "./wal-look.ts";

/** Another process may look at the database; it never holds a lock for long. */
export const BUSY_TIMEOUT_MS = 5000;
/** Enough for the inner pages of a large log. */
const CACHE_KIB = 8192;

/** A new, empty database: made under another name, so that the file is whole or not there. */
export function createDatabase(path: string): void {
  checkNothingLeft(path);
  const unfinished = `${path}.new`;
  for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(unfinished + suffix, { force: true });
  const database = new DatabaseSync(unfinished);
  database.exec(`
    PRAGMA page_size = ${PAGE_BYTES};
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    BEGIN;
    PRAGMA application_id = ${APPLICATION_ID};
    PRAGMA user_version = ${DATABASE_FORMAT};
    ${SCHEMA}
    COMMIT;
    PRAGMA journal_mode = WAL;
  `);
  database.close();
  // What SQLite puts beside a file gets the same mode.
  chmodSync(unfinished, 0o600);
  renameSync(unfinished, path);
  syncFolder(dirname(path));
}

/**
 * For reading only, in a folder without a writer; whatever happens, no byte of it changes. A log without commits is passed
 * over: a process that may only read cannot open that (it waits for ten seconds and fails).
 */
export function openUnwritten(path: string, log: LogLook | undefined): DatabaseSync {
  if ((log?.commits ?? 0) === 0) return openReading(path, "immutable=1");
  const hadIndex = fileBytes(`${path}-shm`) !== undefined;
  return openReading(path, hadIndex ? "mode=ro&readonly_shm=1" : "mode=ro");
}

/** For reading beside a process that writes. */
export function openBeside(path: string): DatabaseSync {
  return openReading(path, "mode=ro&readonly_shm=1");
}

/** Throws when the small tables are damaged; the log and the blobs are checked as they are read. */
export function checkTables(database: DatabaseSync, path: string): void {
  let why: unknown;
  try {
    for (const table of TABLES_TO_CHECK) {
      const [first] = database.prepare(`PRAGMA quick_check('${table}')`).all();
      why = first?.["quick_check"];
      if (why !== "ok") break;
    }
  } catch (error) {
    throw damagedFile(path, messageOf(error), error);
  }
  if (why !== "ok") throw damagedFile(path, String(why));
}

export function openWriting(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    database.exec(`
      PRAGMA trusted_schema = OFF;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA fullfsync = ON;
      PRAGMA checkpoint_fullfsync = ON;
      PRAGMA cache_size = -${CACHE_KIB};
      PRAGMA temp_store = MEMORY;
      PRAGMA wal_autocheckpoint = 0;
    `);
    assertSetting(database, "journal_mode", "wal");
    assertSetting(database, "synchronous", 2);
    assertSetting(database, "fullfsync", 1);
    assertSetting(database, "checkpoint_fullfsync", 1);
    assertSetting(database, "trusted_schema", 0);
    assertSetting(database, "application_id", APPLICATION_ID);
    assertSetting(database, "user_version", DATABASE_FORMAT);
    assertSetting(database, "auto_vacuum", 2);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/**
 * Closes a connection whose write or sync failed, and nothing else: the last one that closes would sync once more and,
 * when that seems to work, delete the write-ahead log, perhaps the only whole copy (F5). It does not while another
 * one reads, and one that may only read never does. Returns the one that reads, to be closed when all others are.
 */
export function abandon(database: DatabaseSync, path: string): DatabaseSync | undefined {
  let bystander: DatabaseSync | undefined;
  try {
    bystander = openBeside(path);
    bystander.prepare("SELECT row FROM log_end").get();
    database.close();
    return bystander;
  } catch {
    // Without it the connection stays open until the thread ends: there is nothing better to do.
    bystander?.close();
    return undefined;
  }
}

function openReading(path: string, how: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.search = how;
  const database = new DatabaseSync(url, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  database.exec(`PRAGMA trusted_schema = OFF; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`);
  return database;
}

function assertSetting(database: DatabaseSync, name: string, expected: string | number): void {
  const found = database.prepare(`PRAGMA ${name}`).get()?.[name];
  if (found === expected) return;
  throw new HoldfastError(
    "unavailable",
    `the database did not take the setting ${name} = ${expected} (it says ${String(found)}); without it nothing would be durable`,
  );
}

/** A new name is durable when its folder is. Windows has no such call and needs none. */
export function syncFolder(folder: string): void {
  if (process.platform !== "win32") sync(folder, "r");
}

export function syncFile(path: string): void {
  sync(path, "r+");
}

function sync(path: string, flags: string): void {
  const handle = openSync(path, flags);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
