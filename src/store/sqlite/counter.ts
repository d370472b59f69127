/**
 * The one counter of a database: versions, lease tokens, uploads.
 *
 * Kept in memory and written once per transaction, before its commit, so that no number that anybody
 * was told is drawn again after a crash.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { number } from "./columns.ts";

export class Counter {
  readonly #read: StatementSync;
  readonly #save: StatementSync;
  #last: number;
  #saved: number;

  constructor(database: DatabaseSync) {
    this.#read = database.prepare("SELECT last FROM counter");
    this.#save = database.prepare("UPDATE counter SET last = ?");
    this.#last = number(this.#read.get() ?? {}, "last");
    this.#saved = this.#last;
  }

  next(): number {
    this.#last += 1;
    return this.#last;
  }

  /** Where other processes draw from the counter as well: called at the beginning of each transaction. */
  reload(): void {
    this.#last = number(this.#read.get() ?? {}, "last");
    this.#saved = this.#last;
  }

  /** Called before each commit. */
  save(): void {
    if (this.#saved === this.#last) return;
    this.#save.run(this.#last);
    this.#saved = this.#last;
  }
}
