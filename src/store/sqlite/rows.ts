/**
 * Everything that a connection serves: each kind of request is the function of its name.
 */
import type { DatabaseSync } from "node:sqlite";
import { blobRows } from "./blob-rows.ts";
import { number } from "./columns.ts";
import { counterOf } from "./counter.ts";
import { logRows } from "./log-rows.ts";
import { tableRows } from "./table-rows.ts";
import { writeAheadLog } from "./write-ahead-log.ts";

export function rowsOf(database: DatabaseSync) {
  const counter = counterOf(database);
  const tables = tableRows(database, counter);
  const blobs = blobRows(database, counter);
  const log = logRows(database, blobs.store);
  const free = database.prepare("PRAGMA freelist_count");
  const writeAhead = writeAheadLog(database);
  return {
    database,
    counter,
    removeUnnamed: blobs.removeUnnamed,
    /** What housekeeping works on. */
    house: {
      log: writeAhead,
      /** Pages of the file that hold nothing. */
      freePages: () => number(free.get(), "freelist_count"),
      /** Gives free pages to the disk. The file itself becomes shorter when the write-ahead log is moved into it. */
      giveBack: (pages: number) => database.exec(`PRAGMA incremental_vacuum(${pages})`),
    },
    writes: { ...log.writes, ...tables.writes, ...blobs.writes },
    reads: {
      ...log.reads,
      ...tables.reads,
      ...blobs.reads,
      /** Looks at every page. What is wrong with the first one that is; undefined when all are right. */
      checkPages(): string | undefined {
        const found = database.prepare("PRAGMA integrity_check(1)").get()?.["integrity_check"];
        return found === "ok" ? undefined : String(found);
      },
      /** A new file with everything that one read transaction sees, also while another process writes. Not synced. */
      copyTo(path: string): void {
        database.prepare("VACUUM INTO ?").run(path);
      },
      /** Writes the file anew: what was deleted is neither in free pages nor in the gaps of others, nor in the write-ahead log. */
      vacuum(): void {
        database.exec("VACUUM");
        writeAhead.moveAll();
      },
    },
  };
}
