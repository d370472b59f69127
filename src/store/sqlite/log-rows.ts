/**
 * The commit log's rows, in the database's thread.
 *
 * A row's checksum covers its number as well: a record in another row's place is damage too.
 */
import { crc32 } from "node:zlib";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import type { LogRow } from "../commit-log.ts";
import type { LogPage, LogSize } from "./calls.ts";
import type { Row } from "./columns.ts";
import { bytes, number, numberOrNull } from "./columns.ts";

export class LogRows {
  readonly #insert: StatementSync;
  readonly #delete: StatementSync;
  readonly #select: StatementSync;
  readonly #selectBody: StatementSync;
  readonly #selectFrom: StatementSync;
  readonly #size: StatementSync;
  readonly #noteEnd: StatementSync;
  #nextRow: number;

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      "INSERT INTO log (row, crc, record, body_crc, body) VALUES (?, ?, ?, ?, ?)",
    );
    this.#delete = database.prepare("DELETE FROM log WHERE row = ?");
    this.#select = database.prepare("SELECT row, crc, record FROM log WHERE row = ?");
    this.#selectBody = database.prepare("SELECT body_crc, body FROM log WHERE row = ?");
    this.#selectFrom = database.prepare("SELECT row, crc, record FROM log WHERE row > ? ORDER BY row");
    this.#size = database.prepare(
      "SELECT count(*) AS rows, coalesce(sum(length(record)), 0) AS bytes FROM log",
    );
    this.#noteEnd = database.prepare("UPDATE log_end SET row = ?");
    const last = database.prepare(
      "SELECT max(coalesce((SELECT max(row) FROM log), 0), (SELECT row FROM log_end)) AS row",
    );
    this.#nextRow = number(last.get() ?? {}, "row") + 1;
  }

  append(record: Uint8Array, body: Uint8Array | undefined, freed: readonly number[]): number {
    const row = this.#nextRow;
    const bodyCrc = body === undefined ? null : checksum(row, body);
    this.#insert.run(row, checksum(row, record), record, bodyCrc, body ?? null);
    this.#nextRow += 1;
    if (freed.length > 0) this.drop(freed);
    return row;
  }

  /** Notes where the log ends: after a restart the highest row that is left would not say it. */
  drop(rows: readonly number[]): void {
    this.#noteEnd.run(this.#nextRow - 1);
    for (const row of rows) this.#delete.run(row);
  }

  read(row: number): Uint8Array {
    const found = this.#select.get(row);
    if (found === undefined) throw new HoldfastError("unavailable", `the log has no row ${row}`);
    return checked(found).record;
  }

  readBody(row: number): Uint8Array {
    const found = this.#selectBody.get(row);
    if (found === undefined) throw new HoldfastError("unavailable", `the log has no row ${row}`);
    const crc = numberOrNull(found, "body_crc");
    if (crc === undefined) return new Uint8Array(0);
    const body = bytes(found, "body");
    if (checksum(row, body) !== crc) throw damagedRow(row);
    return body;
  }

  size(): LogSize {
    const found = this.#size.get() ?? {};
    return { rows: number(found, "rows"), bytes: number(found, "bytes") };
  }

  /** The rows after `after`, up to about `bytesMax` but at least one when there is any. */
  page(after: number, bytesMax: number): LogPage {
    const rows: LogRow[] = [];
    let held = 0;
    for (const found of this.#selectFrom.iterate(after)) {
      const row = checked(found);
      rows.push(row);
      held += row.record.byteLength;
      if (held >= bytesMax) return { rows, isLast: false };
    }
    return { rows, isLast: true };
  }
}

function checked(found: Row): LogRow {
  const row = number(found, "row");
  const record = bytes(found, "record");
  if (checksum(row, record) !== number(found, "crc")) {
    throw damagedRow(row);
  }
  return { row, record };
}

function damagedRow(row: number): HoldfastError {
  return new HoldfastError(
    "stream_failed",
    `the commit log is damaged: row ${row} does not match its checksum; restore the data directory from a backup`,
  );
}

function checksum(row: number, record: Uint8Array): number {
  return crc32(record, row >>> 0);
}
