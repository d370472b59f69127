/** Small tables in PostgreSQL. Batches go through the group writer, so that they are durable in the order in which they were asked for. */
import type { TableRow, TableStore, TableWrite } from "../table-store.ts";
import { assertBatch, assertKey, byBatchesOfOne } from "../table-store.ts";
import { bytes, number, optional, type Row, type Statement, text } from "./driver.ts";
import { type GroupWriter, statement } from "./group-writer.ts";
import type { StoreParts } from "./stream-questions.ts";
import { writeReadBack, writeVerdict } from "./verdicts.ts";

const LIVE = "(expires_ms IS NULL OR expires_ms > holdfast.now_ms())";
const COLUMNS = "key, value, version, expires_ms";

export function postgresTables({ writer, readers, durability, close }: StoreParts): TableStore {
  const ask = async (statement: Statement): Promise<readonly Row[]> => {
    writer.assertUsable();
    return readers.ask(statement);
  };
  const batch: TableStore["batch"] = async (writes) => {
    assertBatch(writes);
    return submitBatch(writer, writes.map(own));
  };
  return {
    durability,
    batch,
    ...byBatchesOfOne(batch),
    async get({ table, key }) {
      const [row] = await ask({
        name: "holdfast-get-row",
        text: `SELECT ${COLUMNS} FROM holdfast.rows WHERE tab = $1 AND key = $2 AND ${LIVE}`,
        values: [table, key],
      });
      return row === undefined ? undefined : tableRow(row);
    },
    async delete({ table, key }) {
      assertKey(table);
      assertKey(key);
      const [row] = await statement(writer, {
        name: "holdfast-delete-row",
        text: `WITH gone AS (DELETE FROM holdfast.rows WHERE tab = $1 AND key = $2 RETURNING ${LIVE} AS was_live)
          SELECT count(*) FILTER (WHERE was_live) AS count FROM gone`,
        values: [table, key],
      });
      return row !== undefined && number(row, "count") > 0;
    },
    async list(table, prefix, { after, countMax }) {
      const rows = await ask({
        name: "holdfast-list-rows",
        text: `SELECT ${COLUMNS} FROM holdfast.rows
          WHERE tab = $1 AND key >= $2 AND starts_with(key, $2) AND key < $5 AND ($3::text IS NULL OR key > $3) AND ${LIVE}
          ORDER BY key LIMIT $4`,
        values: [table, prefix, after ?? null, Math.max(0, countMax), `${prefix}\u{10ffff}`],
      });
      return rows.map(tableRow);
    },
    async sweep(countMax) {
      const [row] = await statement(writer, {
        name: "holdfast-sweep-rows",
        text: `WITH ended AS (
            SELECT tab, key FROM holdfast.rows WHERE expires_ms <= holdfast.now_ms()
            ORDER BY tab, key LIMIT $1 FOR UPDATE SKIP LOCKED
          ), gone AS (
            DELETE FROM holdfast.rows r USING ended e WHERE r.tab = e.tab AND r.key = e.key RETURNING 1
          ) SELECT count(*) AS count FROM gone`,
        values: [countMax],
      });
      return row === undefined ? 0 : number(row, "count");
    },
    close,
  };
}

function submitBatch(writer: GroupWriter, writes: readonly TableWrite[]): ReturnType<TableStore["batch"]> {
  const act = { kind: "write", writes } as const;
  return writer.submit({
    act,
    answer: (outcome) => writeVerdict(act, outcome),
    readBack: (back) => writeReadBack(act, back),
  });
}

/** The caller may use its bytes again while they wait for their group. */
function own(write: TableWrite): TableWrite {
  return write.kind === "put" ? { ...write, value: new Uint8Array(write.value) } : write;
}

function tableRow(row: Row): TableRow {
  return {
    key: text(row, "key"),
    value: bytes(row, "value"),
    version: number(row, "version"),
    expiresMs: optional(row, "expires_ms", number),
  };
}
