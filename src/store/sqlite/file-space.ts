/** The pages of a database file that hold nothing, and giving them back to the disk. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { number } from "./columns.ts";

export class FileSpace {
  readonly #database: DatabaseSync;
  readonly #free: StatementSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#free = database.prepare("PRAGMA freelist_count");
  }

  freePages(): number {
    return number(this.#free.get() ?? {}, "freelist_count");
  }

  /** The file itself becomes shorter when the write-ahead log is moved into it. */
  giveBack(pages: number): void {
    this.#database.exec(`PRAGMA incremental_vacuum(${pages})`);
  }
}
