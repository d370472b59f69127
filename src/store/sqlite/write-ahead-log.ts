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

export class WriteAheadLog {
  readonly #database: DatabaseSync;
  readonly #length: StatementSync;
  readonly #move: StatementSync;
  readonly #truncate: StatementSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#length = database.prepare("PRAGMA wal_checkpoint(NOOP)");
    this.#move = database.prepare("PRAGMA wal_checkpoint(PASSIVE)");
    this.#truncate = database.prepare("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  length(): LogLength {
    return lengthOf(this.#length);
  }

  /** Moves what it can without waiting for anybody, and syncs it. A log that was moved whole begins anew. */
  move(): LogLength {
    return lengthOf(this.#move);
  }

  /** Moves everything, or throws. What another process keeps in the log may not be on the disk. */
  moveAll(): void {
    if (isMoved(this.truncate())) return;
    // The same, but it waits for the reader.
    if (isMoved(lengthOf(this.#truncate))) return;
    throw new HoldfastError(
      "unavailable",
      "another process reads an old state of the database, or moves its log; end it (perhaps `holdfast inspect`), then start again",
    );
  }

  /** Moves everything and gives the file's space back, unless a reader is in the way. */
  truncate(): LogLength {
    this.#database.exec("PRAGMA busy_timeout = 0");
    try {
      return lengthOf(this.#truncate);
    } finally {
      this.#database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }
}

/** While another connection moves the log, SQLite tries nothing and says -1 to both. */
function isMoved({ pages, movedPages }: LogLength): boolean {
  return pages >= 0 && movedPages === pages;
}

function lengthOf(statement: StatementSync): LogLength {
  const row = statement.get();
  return { pages: number(row, "log"), movedPages: number(row, "checkpointed") };
}
