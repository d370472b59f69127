/**
 * The write-ahead log of a connection: how long it is, and moving it into the database.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import { number } from "./columns.ts";
import { BUSY_TIMEOUT_MS } from "./connection.ts";

export interface LogLength {
  /** Pages in the log since it last began anew. */
  readonly pages: number;
  /** Those of them that are in the database as well. */
  readonly movedPages: number;
}

export function writeAheadLog(database: DatabaseSync) {
  const look = database.prepare("PRAGMA wal_checkpoint(NOOP)");
  const moveSome = database.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  const moveWhole = database.prepare("PRAGMA wal_checkpoint(TRUNCATE)");

  /** Moves everything and gives the file's space back, unless a reader is in the way. */
  function truncate(): LogLength {
    database.exec("PRAGMA busy_timeout = 0");
    try {
      return lengthOf(moveWhole);
    } finally {
      database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }

  return {
    length: () => lengthOf(look),
    /** Moves what it can without waiting, and syncs it. A log that was moved whole begins anew. */
    move: () => lengthOf(moveSome),
    /** Moves everything, or throws. What another process keeps in the log may not be on the disk. */
    moveAll(): void {
      if (isMoved(truncate())) return;
      // The same, but it waits for the reader.
      if (isMoved(lengthOf(moveWhole))) return;
      throw new HoldfastError(
        "unavailable",
        "another process reads an old state of the database, or moves its log; end it (perhaps `holdfast inspect`), then start again",
      );
    },
    truncate,
  };
}

/** While another connection moves the log, SQLite tries nothing and says -1 to both. */
function isMoved({ pages, movedPages }: LogLength): boolean {
  return pages >= 0 && movedPages === pages;
}

function lengthOf(statement: StatementSync): LogLength {
  const row = statement.get();
  return { pages: number(row, "log"), movedPages: number(row, "checkpointed") };
}
