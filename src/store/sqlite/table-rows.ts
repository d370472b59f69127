/**
 * Small tables, in the database's thread.
 *
 * A batch is judged before anything of it is written, so one that fails leaves no trace in the
 * transaction that it shares with others (A4). Ended rows are as if they were not there;
 * `sweep` removes them. Time comes with each request: the clock that judges expiry is the caller's (D7).
 */
import type { DatabaseSync } from "node:sqlite";
import type { BatchResult, KeyPage, TableKey, TableRow, TableWrite } from "../table-store.ts";
import { NO_ROW } from "../table-store.ts";
import type { Row } from "./columns.ts";
import { bytes, number, numberOrNull, text } from "./columns.ts";
import type { Counter } from "./counter.ts";

export interface Timed {
  readonly nowMs: number;
}

export interface Batch extends Timed {
  readonly writes: readonly TableWrite[];
}

export interface Listing extends Timed {
  readonly table: string;
  readonly prefix: string;
  readonly page: KeyPage;
}

/** When spaces of blobs end. Rows of this table go with their space. */
export const SPACES = "blob_spaces";

const LIVE = "(expires_ms IS NULL OR expires_ms > ?)";

export function tableRows(database: DatabaseSync, counter: Counter) {
  const select = "SELECT key, value, version, expires_ms FROM rows WHERE tab = ?";
  const get = database.prepare(`${select} AND key = ? AND ${LIVE}`);
  const version = database.prepare(`SELECT version FROM rows WHERE tab = ? AND key = ? AND ${LIVE}`);
  // A row that is written again moves to the end: in its place it would not fit, and what grows there leaves pages half empty.
  const put = database.prepare(
    "INSERT OR REPLACE INTO rows (tab, key, version, expires_ms, value) VALUES (?, ?, ?, ?, ?)",
  );
  const remove = database.prepare("DELETE FROM rows WHERE tab = ? AND key = ?");
  const listFrom = database.prepare(`${select} AND key >= ? AND ${LIVE} ORDER BY key`);
  const listAfter = database.prepare(`${select} AND key >= ? AND key > ? AND ${LIVE} ORDER BY key`);
  const sweepRows = database.prepare(
    `DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows WHERE expires_ms <= ? AND tab <> '${SPACES}' LIMIT ?)`,
  );

  function versionOf({ table, key }: TableKey, nowMs: number): number {
    const found = version.get(table, key, nowMs);
    return found === undefined ? NO_ROW : number(found, "version");
  }

  return {
    writes: {
      batch({ writes, nowMs }: Batch): BatchResult {
        const isExpected = (write: TableWrite): boolean =>
          write.expectedVersion === undefined || versionOf(write, nowMs) === write.expectedVersion;
        const failed = writes.flatMap((write, place) => (isExpected(write) ? [] : [place]));
        if (failed.length > 0) return { kind: "conflict", writes: failed };
        const version = counter.next();
        for (const write of writes) {
          const { table, key } = write;
          if (write.kind === "delete") {
            remove.run(table, key);
            continue;
          }
          const expiresMs = write.ttlMs === undefined ? null : nowMs + write.ttlMs;
          put.run(table, key, version, expiresMs, write.value);
        }
        return { kind: "written", version };
      },
      deleteRow({ table, key, nowMs }: TableKey & Timed): boolean {
        const existed = versionOf({ table, key }, nowMs) !== NO_ROW;
        remove.run(table, key);
        return existed;
      },
      sweep({ countMax, nowMs }: Timed & { readonly countMax: number }): number {
        return Number(sweepRows.run(nowMs, countMax).changes);
      },
    },
    reads: {
      getRow({ table, key, nowMs }: TableKey & Timed): TableRow | undefined {
        const found = get.get(table, key, nowMs);
        return found === undefined ? undefined : tableRow(found);
      },
      listRows({ table, prefix, page: { after, countMax }, nowMs }: Listing): readonly TableRow[] {
        const listed: TableRow[] = [];
        if (countMax <= 0) return listed;
        const rows =
          after === undefined
            ? listFrom.iterate(table, prefix, nowMs)
            : listAfter.iterate(table, prefix, after, nowMs);
        for (const found of rows) {
          const row = tableRow(found);
          if (!row.key.startsWith(prefix)) break;
          listed.push(row);
          if (listed.length >= countMax) break;
        }
        return listed;
      },
    },
  };
}

function tableRow(found: Row): TableRow {
  return {
    key: text(found, "key"),
    value: bytes(found, "value"),
    version: number(found, "version"),
    expiresMs: numberOrNull(found, "expires_ms"),
  };
}
