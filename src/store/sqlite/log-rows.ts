/**
 * The commit log's rows, in the database's thread.
 *
 * A row's checksum covers its number as well: a record in another row's place is damage too.
 */
import { crc32 } from "node:zlib";
import type { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import type { SealedBlob } from "../blob-store.ts";
import type { LogRow, RewrittenRow } from "../commit-log.ts";
import type { Row } from "./columns.ts";
import { bytes, number, numberOrNull } from "./columns.ts";

export interface Append {
  readonly record: Uint8Array;
  readonly body: Uint8Array | undefined;
  /** Rows that are dropped in the same transaction. */
  readonly freed: readonly number[];
  /** Blobs that are put in the same transaction. */
  readonly blobs: readonly SealedBlob[];
  readonly nowMs: number;
}

export interface PageWish {
  readonly after: number;
  readonly bytesMax: number;
}

/** A run of rows, and whether there are more. */
export interface LogPage {
  readonly rows: readonly LogRow[];
  readonly isLast: boolean;
}

export interface RowsWish {
  readonly rows: readonly number[];
  readonly bytesMax: number;
}

/** `storeBlob`: not needed by those that only read. */
export function logRows(database: DatabaseSync, storeBlob?: (blob: SealedBlob, nowMs: number) => void) {
  const insert = database.prepare(
    "INSERT INTO log (row, crc, record, body_crc, body) VALUES (?, ?, ?, ?, ?)",
  );
  const replace = database.prepare("UPDATE log SET crc = ?, record = ? WHERE row = ?");
  const replaceBody = database.prepare("UPDATE log SET body_crc = ?, body = ? WHERE row = ?");
  const remove = database.prepare("DELETE FROM log WHERE row = ?");
  const select = database.prepare("SELECT row, crc, record FROM log WHERE row = ?");
  const selectBody = database.prepare("SELECT body_crc, body FROM log WHERE row = ?");
  const selectFrom = database.prepare("SELECT row, crc, record FROM log WHERE row > ? ORDER BY row");
  const bytesOfAll = database.prepare("SELECT coalesce(sum(length(record)), 0) AS bytes FROM log");
  const noteEnd = database.prepare("UPDATE log_end SET row = ?");
  const last = database.prepare(
    "SELECT max(coalesce((SELECT max(row) FROM log), 0), (SELECT row FROM log_end)) AS row",
  );
  let nextRow = number(last.get(), "row") + 1;

  /** Notes where the log ends: after a restart the highest row that is left would not say it. */
  function drop({ rows }: { readonly rows: readonly number[] }): void {
    noteEnd.run(nextRow - 1);
    for (const row of rows) remove.run(row);
  }

  return {
    writes: {
      append({ record, body, freed, blobs, nowMs }: Append): number {
        const row = nextRow;
        const bodyCrc = body === undefined ? null : checksum(row, body);
        insert.run(row, checksum(row, record), record, bodyCrc, body ?? null);
        nextRow += 1;
        if (freed.length > 0) drop({ rows: freed });
        for (const blob of blobs) storeBlob?.(blob, nowMs);
        return row;
      },
      drop,
      rewrite({ rewritten }: { readonly rewritten: readonly RewrittenRow[] }): void {
        for (const { row, record, body } of rewritten) {
          replace.run(checksum(row, record), record, row);
          if (body !== undefined) replaceBody.run(checksum(row, body), body, row);
        }
      },
    },
    reads: {
      /** The rows after `after`, up to about `bytesMax` but at least one when there is any. */
      scan({ after, bytesMax }: PageWish): LogPage {
        const rows: LogRow[] = [];
        let held = 0;
        for (const found of selectFrom.iterate(after)) {
          const row = checked(found);
          rows.push(row);
          held += row.record.byteLength;
          if (held >= bytesMax) return { rows, isLast: false };
        }
        return { rows, isLast: true };
      },
      logBytes: (): number => number(bytesOfAll.get(), "bytes"),
      read: ({ row }: Pick<LogRow, "row">): Uint8Array => checked(there(select.get(row), row)).record,
      /** The first of these rows, up to about `bytesMax` but at least one. Throws what is wrong with one of them. */
      readRows({ rows: wanted, bytesMax }: RowsWish): Pick<LogPage, "rows"> {
        const rows: LogRow[] = [];
        let held = 0;
        for (const row of wanted) {
          const found = checked(there(select.get(row), row));
          rows.push(found);
          held += found.record.byteLength;
          if (held >= bytesMax) break;
        }
        return { rows };
      },
      readBody({ row }: Pick<LogRow, "row">): Uint8Array {
        const found = there(selectBody.get(row), row);
        const crc = numberOrNull(found, "body_crc");
        if (crc === undefined) return new Uint8Array(0);
        const body = bytes(found, "body");
        if (checksum(row, body) !== crc) throw damagedRow(row);
        return body;
      },
    },
  };
}

function there(found: Row | undefined, row: number): Row {
  if (found === undefined) throw new HoldfastError("unavailable", `the log has no row ${row}`);
  return found;
}

function checked(found: Row): LogRow {
  const row = number(found, "row");
  const record = bytes(found, "record");
  if (checksum(row, record) !== number(found, "crc")) throw damagedRow(row);
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
