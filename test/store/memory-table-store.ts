/**
 * Tables in memory: the model that the SQL ones are held against, and the store of tests that need no disk.
 *
 * Every change goes through `batch`, so there is one place where expectations and expiry meet.
 * Ended rows are invisible at once and removed by `sweep`.
 */
import { HoldfastError } from "../../src/protocol/errors.ts";
import { byCodePoint } from "../../src/store/key-order.ts";
import type { TableKey, TableRow, TableStore, TableWrite } from "../../src/store/table-store.ts";
import { NO_ROW, assertBatch, byBatchesOfOne } from "../../src/store/table-store.ts";

export interface MemoryTableStoreOptions {
  /** The clock of expiry, in milliseconds. */
  readonly now: () => number;
}

export function memoryTableStore({ now }: MemoryTableStoreOptions): TableStore {
  const tables = new Map<string, Map<string, TableRow>>();
  let counter = 0;
  let isClosed = false;

  function assertOpen(): void {
    if (isClosed) throw new HoldfastError("unavailable", "the store is closed");
  }

  function rowAt({ table, key }: TableKey): TableRow | undefined {
    const row = tables.get(table)?.get(key);
    return row === undefined || isEnded(row, now()) ? undefined : row;
  }

  function isExpected(write: TableWrite): boolean {
    if (write.expectedVersion === undefined) return true;
    return (rowAt(write)?.version ?? NO_ROW) === write.expectedVersion;
  }

  function apply(write: TableWrite, version: number): void {
    const { table, key } = write;
    const rows = tables.get(table) ?? new Map<string, TableRow>();
    tables.set(table, rows);
    if (write.kind === "delete") {
      rows.delete(key);
      return;
    }
    const expiresMs = write.ttlMs === undefined ? undefined : now() + write.ttlMs;
    rows.set(key, { key, value: new Uint8Array(write.value), version, expiresMs });
  }

  const batch: TableStore["batch"] = async (writes) => {
    assertOpen();
    assertBatch(writes);
    const failed = writes.flatMap((write, place) => (isExpected(write) ? [] : [place]));
    if (failed.length > 0) return { kind: "conflict", writes: failed };
    const version = ++counter;
    for (const write of writes) apply(write, version);
    return { kind: "written", version };
  };

  return {
    durability: "none",
    batch,
    ...byBatchesOfOne(batch),
    async get(at) {
      assertOpen();
      const row = rowAt(at);
      return row === undefined ? undefined : ownCopy(row);
    },
    async delete(at) {
      assertOpen();
      const existed = rowAt(at) !== undefined;
      await batch([{ kind: "delete", ...at }]);
      return existed;
    },
    async list(table, prefix, { after, countMax }) {
      assertOpen();
      const nowMs = now();
      return [...(tables.get(table)?.values() ?? [])]
        .filter((row) => row.key.startsWith(prefix) && !isEnded(row, nowMs))
        .filter((row) => after === undefined || byCodePoint(row.key, after) > 0)
        .toSorted((a, b) => byCodePoint(a.key, b.key))
        .slice(0, countMax)
        .map(ownCopy);
    },
    async sweep(countMax) {
      assertOpen();
      const nowMs = now();
      let count = 0;
      for (const rows of tables.values()) {
        for (const row of rows.values()) {
          if (count < countMax && isEnded(row, nowMs) && rows.delete(row.key)) count += 1;
        }
      }
      return count;
    },
    async close() {
      isClosed = true;
    },
  };
}

function isEnded(row: TableRow, nowMs: number): boolean {
  return row.expiresMs !== undefined && row.expiresMs <= nowMs;
}

function ownCopy(row: TableRow): TableRow {
  return { ...row, value: row.value.slice() };
}
