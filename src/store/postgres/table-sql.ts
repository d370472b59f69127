/**
 * The statements by which a group changes rows of small tables: any number of batches, each all or none.
 *
 * Rows are locked in the order of their keys before they are compared. A row that must not be there is first made as one that has ended, which is
 * as if it were not there: so there is something to lock, and of two nodes that expect no row one wins (D1). (`DO UPDATE ... WHERE false` writes nothing, and locks.)
 */
import { NO_ROW, type PutWrite, type TableWrite } from "../table-store.ts";
import type { WriteAct } from "./acts.ts";
import type { Statement } from "./driver.ts";
import { bigints, bodies, texts } from "./wire-arrays.ts";

/** One write, with the number of its batch and its own among all writes of the group. */
interface NumberedWrite {
  readonly write: TableWrite;
  readonly batch: number;
  readonly number: number;
}

/** The last of the statements tells the numbers of the writes whose expectation failed. */
export function writeRows(store: number, acts: readonly WriteAct[]): readonly Statement[] {
  const writes = numbered(acts).toSorted((a, b) => Buffer.compare(keyBytes(a.write), keyBytes(b.write)));
  const fresh = writes.filter(({ write }) => write.kind === "put" && write.expectedVersion === NO_ROW);
  const expecting = writes.filter(({ write }) => write.expectedVersion !== undefined);
  const statements: Statement[] = [];
  if (fresh.length > 0) {
    statements.push({
      name: "holdfast-row-places",
      text: `INSERT INTO holdfast.rows (tab, key, version, expires_ms, value)
        SELECT i.tab, i.key, 0, 0, '' FROM unnest($1::text[], $2::text[]) AS i(tab, key)
        ON CONFLICT (tab, key) DO UPDATE SET version = rows.version WHERE false`,
      values: keysOf(fresh),
    });
  }
  if (expecting.length > 0) {
    statements.push({
      name: "holdfast-row-locks",
      text: `SELECT count(*) FROM unnest($1::text[], $2::text[]) AS i(tab, key)
        CROSS JOIN LATERAL (SELECT 1 FROM holdfast.rows r WHERE r.tab = i.tab AND r.key = i.key FOR UPDATE) locked`,
      values: keysOf(writes),
    });
  }
  const puts = writes.flatMap(({ write, batch }) => (write.kind === "put" ? [{ write, batch }] : []));
  const deletes = writes.filter(({ write }) => write.kind === "delete");
  statements.push({
    name: "holdfast-rows",
    text: `WITH clock AS (SELECT now_ms, row_version FROM holdfast.receipts WHERE store = $1),
      failed AS MATERIALIZED (
        SELECT i.batch, i.number FROM clock c, unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
          AS i(tab, key, batch, number, expected)
        WHERE i.expected <> coalesce((
          SELECT r.version FROM holdfast.rows r
          WHERE r.tab = i.tab AND r.key = i.key AND (r.expires_ms IS NULL OR r.expires_ms > c.now_ms)), ${NO_ROW})
      ), put AS (
        INSERT INTO holdfast.rows (tab, key, version, expires_ms, value)
        SELECT i.tab, i.key, c.row_version, c.now_ms + i.ttl_ms, i.value
        FROM clock c, unnest($7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::bytea[]) AS i(tab, key, batch, ttl_ms, value)
        WHERE i.batch NOT IN (SELECT batch FROM failed)
        ON CONFLICT (tab, key) DO UPDATE SET version = excluded.version, expires_ms = excluded.expires_ms, value = excluded.value
      ), gone AS (
        DELETE FROM holdfast.rows r USING unnest($12::text[], $13::text[], $14::bigint[]) AS i(tab, key, batch)
        WHERE r.tab = i.tab AND r.key = i.key AND i.batch NOT IN (SELECT batch FROM failed)
      )
      SELECT number FROM failed`,
    values: [
      store,
      ...keysOf(expecting),
      bigints(expecting.map(({ batch }) => batch)),
      bigints(expecting.map(({ number }) => number)),
      bigints(expecting.map(({ write }) => write.expectedVersion)),
      ...keysOf(puts),
      bigints(puts.map(({ batch }) => batch)),
      bigints(puts.map(({ write }: { readonly write: PutWrite }) => write.ttlMs)),
      bodies(puts.map(({ write }) => write.value)),
      ...keysOf(deletes),
      bigints(deletes.map(({ batch }) => batch)),
    ],
  });
  return statements;
}

/** Of the numbers that the last statement returned: for each batch that failed, the places of its writes. */
export function failuresOf(
  acts: readonly WriteAct[],
  failed: ReadonlySet<number>,
): ReadonlyMap<WriteAct, readonly number[]> {
  const places = new Map<WriteAct, readonly number[]>();
  let number = 0;
  for (const act of acts) {
    const begin = number;
    number += act.writes.length;
    const own = act.writes.flatMap((_, place) => (failed.has(begin + place) ? [place] : []));
    if (own.length > 0) places.set(act, own);
  }
  return places;
}

function numbered(acts: readonly WriteAct[]): readonly NumberedWrite[] {
  let number = 0;
  return acts.flatMap(({ writes }, batch) => writes.map((write) => ({ write, batch, number: number++ })));
}

function keyBytes({ table, key }: TableWrite): Uint8Array {
  return Buffer.from(`${table}\0${key}`);
}

function keysOf(writes: readonly { readonly write: TableWrite }[]): readonly [Buffer, Buffer] {
  return [texts(writes.map(({ write }) => write.table)), texts(writes.map(({ write }) => write.key))];
}

/** The versions that rows have now, for reading back. */
export function rowVersions(acts: readonly WriteAct[]): Statement {
  const keys = acts.flatMap(({ writes }) => writes.map((write) => ({ write })));
  return {
    text: `SELECT r.tab, r.key, r.version FROM unnest($1::text[], $2::text[]) AS i(tab, key)
      JOIN holdfast.rows r ON r.tab = i.tab AND r.key = i.key`,
    values: keysOf(keys),
  };
}
