/**
 * Small tables over the database's thread. The caller's mistakes are found here, before anything is sent: a
 * batch that the database cannot hold must not spoil the transaction that it would share.
 */
import type { Durability } from "../../protocol/frames.ts";
import type {
  BatchResult,
  Fence,
  KeyPage,
  LeaseAcquired,
  LeaseHeld,
  PutOptions,
  TableKey,
  TableRow,
  TableStore,
  TableWrite,
  WriteConflict,
  Written,
} from "../table-store.ts";
import { assertBatch, assertDurationMs, assertKey, putAlone, swapAlone } from "../table-store.ts";
import type { Thread } from "./thread.ts";

export class SqliteTables implements TableStore {
  readonly durability: Durability = "fsync";
  readonly #thread: Thread;
  readonly #now: () => number;

  constructor(thread: Thread, now: () => number) {
    this.#thread = thread;
    this.#now = now;
  }

  get({ table, key }: TableKey): Promise<TableRow | undefined> {
    return this.#thread.call("getRow", { table, key, nowMs: this.#now() });
  }

  put(at: TableKey, value: Uint8Array, options: PutOptions = {}): Promise<number> {
    return putAlone(this, at, value, options);
  }

  compareAndSwap(
    at: TableKey,
    expectedVersion: number,
    value: Uint8Array,
    options: PutOptions = {},
  ): Promise<Written | WriteConflict> {
    return swapAlone(this, at, expectedVersion, value, options);
  }

  async delete({ table, key }: TableKey): Promise<boolean> {
    assertKey(table);
    assertKey(key);
    return this.#thread.call("deleteRow", { table, key, nowMs: this.#now() });
  }

  list(table: string, prefix: string, { after, countMax }: KeyPage): Promise<readonly TableRow[]> {
    return this.#thread.call("listRows", { table, prefix, page: { after, countMax }, nowMs: this.#now() });
  }

  async batch(writes: readonly TableWrite[], fences: readonly Fence[] = []): Promise<BatchResult> {
    assertBatch(writes);
    const plainFences = fences.map(({ lease, token }) => ({ lease, token }));
    return this.#thread.call("batch", {
      writes: writes.map(plain),
      fences: plainFences,
      nowMs: this.#now(),
    });
  }

  async acquire(lease: string, holder: string, leaseMs: number): Promise<LeaseAcquired | LeaseHeld> {
    assertKey(lease);
    assertKey(holder);
    assertDurationMs(leaseMs);
    return this.#thread.call("acquire", { lease, holder, leaseMs, nowMs: this.#now() });
  }

  async renew(lease: string, token: number, leaseMs: number): Promise<boolean> {
    assertDurationMs(leaseMs);
    return this.#thread.call("renew", { lease, token, leaseMs, nowMs: this.#now() });
  }

  release(lease: string, token: number): Promise<void> {
    return this.#thread.call("release", { lease, token, nowMs: this.#now() });
  }

  sweep(countMax: number): Promise<number> {
    return this.#thread.call("sweep", { countMax, nowMs: this.#now() });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Only what belongs to a write: the port copies every property, the whole memory that a view looks into, and refuses functions. */
function plain(write: TableWrite): TableWrite {
  const { table, key, expectedVersion } = write;
  if (write.kind === "delete") return { kind: "delete", table, key, expectedVersion };
  return { kind: "put", table, key, expectedVersion, value: new Uint8Array(write.value), ttlMs: write.ttlMs };
}
