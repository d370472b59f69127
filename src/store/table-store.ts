/**
 * Small durable tables: gateway sessions, API keys, a Node client's journals.
 *
 * One primitive carries everything: a batch of writes, each with what it expects to find, applied all
 * or none. A version is drawn from one counter per store and never used twice, so a row that was
 * deleted and made anew is not mistaken for the old one. Expiry is judged by the store's clock (D7).
 *
 * Writes of one process become durable in the order in which they were asked for: a crash leaves none of them without those before it.
 *
 * Designed for one SQL table of rows (table, key, value, version, expires) with the primary key in
 * binary order, and a counter.
 */
import { assert } from "../protocol/assert.ts";
import type { Durability } from "../protocol/frames.ts";

export interface TableKey {
  readonly table: string;
  readonly key: string;
}

export interface TableRow {
  readonly key: string;
  readonly value: Uint8Array;
  /** Positive; rises with every write in the whole store. */
  readonly version: number;
  /** When the row ends, by the store's clock; undefined when it stays. */
  readonly expiresMs: number | undefined;
}

/** `expectedVersion` of a row that must not be there. */
export const NO_ROW = 0;

interface WriteTarget extends TableKey {
  /** The version that the row must have, `NO_ROW` for none; undefined when it does not matter. */
  readonly expectedVersion?: number | undefined;
}

export interface PutWrite extends WriteTarget {
  readonly kind: "put";
  readonly value: Uint8Array;
  /** The row ends this long from now; undefined when it stays. */
  readonly ttlMs?: number | undefined;
}

export interface DeleteWrite extends WriteTarget {
  readonly kind: "delete";
}

export type TableWrite = PutWrite | DeleteWrite;

export interface Written {
  readonly kind: "written";
  /** The version of every row that the batch put. */
  readonly version: number;
}

export interface WriteConflict {
  readonly kind: "conflict";
  /** The writes whose expectation failed, by their place in the batch. Nothing was written. */
  readonly writes: readonly number[];
}

export type BatchResult = Written | WriteConflict;

export interface PutOptions {
  readonly ttlMs?: number | undefined;
}

export interface KeyPage {
  /** The last key of the page before; undefined for the first page. */
  readonly after: string | undefined;
  readonly countMax: number;
}

export interface TableStore {
  /** What a resolved write survives. */
  readonly durability: Durability;

  get(at: TableKey): Promise<TableRow | undefined>;
  /** Writes whatever is there; returns the new version. */
  put(at: TableKey, value: Uint8Array, options?: PutOptions): Promise<number>;
  /** Writes only over the expected version, `NO_ROW` for none. */
  compareAndSwap(
    at: TableKey,
    expectedVersion: number,
    value: Uint8Array,
    options?: PutOptions,
  ): Promise<BatchResult>;
  /** True when there was a row. */
  delete(at: TableKey): Promise<boolean>;
  /** The rows whose keys begin with `prefix`, in the order of their code points. */
  list(table: string, prefix: string, page: KeyPage): Promise<readonly TableRow[]>;

  /** All writes or none. A key may occur once. Handed over within the call: batches happen in the order in which they are asked for. */
  batch(writes: readonly TableWrite[]): Promise<BatchResult>;

  /** Gives the space of ended rows back, at most `countMax` of them; returns how many. */
  sweep(countMax: number): Promise<number>;
  close(): Promise<void>;
}

const PAGE_ROWS = 256;

/** All rows of a table whose keys begin with `prefix`, read page by page. */
export async function* rowsOf(
  tables: Pick<TableStore, "list">,
  table: string,
  prefix = "",
): AsyncGenerator<TableRow> {
  for (let after: string | undefined; ;) {
    const page = await tables.list(table, prefix, { after, countMax: PAGE_ROWS });
    yield* page;
    after = page.at(-1)?.key;
    if (page.length < PAGE_ROWS || after === undefined) return;
  }
}

/** What every store does as batches of one. */
export function byBatchesOfOne(batch: TableStore["batch"]): Pick<TableStore, "put" | "compareAndSwap"> {
  return {
    async put(at, value, { ttlMs } = {}) {
      const result = await batch([{ kind: "put", ...at, value, ttlMs }]);
      assert(result.kind === "written", "a put without expectation succeeds");
      return result.version;
    },
    compareAndSwap: (at, expectedVersion, value, { ttlMs } = {}) =>
      batch([{ kind: "put", ...at, value, expectedVersion, ttlMs }]),
  };
}

/** Fits every index, and every name that we build. */
const KEY_BYTES_MAX = 512;

/** What every store can hold as text: SQL has no NUL, and a lone surrogate would be read back as another key. */
export function assertKey(text: string): void {
  assert(text.isWellFormed() && !text.includes("\0"), "a key is well-formed text without NUL");
  assert(Buffer.byteLength(text) <= KEY_BYTES_MAX, `a key has at most ${KEY_BYTES_MAX} bytes`);
}

function assertDurationMs(durationMs: number | undefined): void {
  if (durationMs === undefined) return;
  assert(Number.isSafeInteger(durationMs) && durationMs > 0, "a duration is a positive whole number");
}

/** A batch means one thing only: with a key twice, the order would decide. */
export function assertBatch(writes: readonly TableWrite[]): void {
  const seen = new Set<string>();
  for (const write of writes) {
    assertKey(write.table);
    assertKey(write.key);
    if (write.kind === "put") assertDurationMs(write.ttlMs);
    const at = `${write.table}\0${write.key}`;
    assert(!seen.has(at), "a key occurs once in a batch");
    seen.add(at);
  }
}
