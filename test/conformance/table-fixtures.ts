/** What the tests of table stores are given and what they say: a store with its clock, keys and values. */
import type { TestContext } from "node:test";
import type { TableKey, TableStore } from "../../src/store/index.ts";

export interface TableStoreHarness {
  readonly store: TableStore;
  /** Another node's handle on the same tables. */
  readonly peer?: TableStore;
  readonly reopen?: () => Promise<TableStore>;
  readonly clock: { advance(ms: number): void };
}

export type OpenedTables = (t: TestContext) => Promise<TableStoreHarness>;

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function at(key: string, table = "t"): TableKey {
  return { table, key };
}
