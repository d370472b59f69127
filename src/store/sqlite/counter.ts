/**
 * The one counter of a database: versions, uploads.
 *
 * Kept in memory and written once per transaction, before its commit, so that no number that a caller
 * has got is drawn again after a crash.
 */
import type { DatabaseSync } from "node:sqlite";
import { number } from "./columns.ts";

export interface Counter {
  next(): number;
  /** Where other processes draw from the counter as well: called at the beginning of each transaction. */
  reload(): void;
  /** Called before each commit. */
  save(): void;
}

export function counterOf(database: DatabaseSync): Counter {
  const read = database.prepare("SELECT last FROM counter");
  const write = database.prepare("UPDATE counter SET last = ?");
  let last = 0;
  let saved = 0;
  const counter: Counter = {
    next: () => ++last,
    reload() {
      last = number(read.get(), "last");
      saved = last;
    },
    save() {
      if (saved !== last) write.run(last);
      saved = last;
    },
  };
  counter.reload();
  return counter;
}
