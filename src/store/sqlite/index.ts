/** The embedded store: a SQLite database in a thread of its own, and the lock that keeps it to one process. */
export type { SqliteDatabase, SqliteOptions, SqliteStore, SqliteStoreOptions } from "./database.ts";
export { DATABASE_FILE, openSqlite, openSqliteReadOnly, openSqliteStore } from "./database.ts";
export type { FileLock, LockOptions } from "./lock.ts";
export { lockFile } from "./lock.ts";
export type { ScanProgress } from "./sqlite-log.ts";
