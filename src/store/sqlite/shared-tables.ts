/**
 * Tables that several processes share: those of clients that work in one directory.
 *
 * Every process has its own thread and its own group commit; the tables keep their promises between
 * processes as they do within one.
 */
import type { TableStore } from "../table-store.ts";
import { lockPathOf } from "./database.ts";
import { sqliteTables } from "./sqlite-tables.ts";
import { startThread } from "./thread.ts";

interface SharedTablesOptions {
  /** The clock of expiry, in milliseconds; processes on one machine have the same (D7). */
  readonly now: () => number;
}

/** Makes the file when it is not there; its folder must be. Refused while a process owns it alone. */
export async function openSharedTables(path: string, { now }: SharedTablesOptions): Promise<TableStore> {
  return sqliteTables(await startThread({ path, lockPath: lockPathOf(path), mode: "share" }), now);
}
