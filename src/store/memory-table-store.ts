/**
 * Tables in memory: the model that the SQL ones are held against, and a real store where nothing needs
 * to stay.
 *
 * Every change goes through `batch`, so there is one place where expectations, fences and expiry meet.
 * Ended rows are invisible at once and removed by `sweep`.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Durability } from "../protocol/frames.ts";
import { byCodePoint } from "./key-order.ts";
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
} from "./table-store.ts";
import { NO_ROW, assertBatch, assertDurationMs, assertKey, putAlone, swapAlone } from "./table-store.ts";

export interface MemoryTableStoreOptions {
  /** The clock of expiry and leases, in milliseconds. */
  readonly now: () => number;
}

interface TableLease {
  readonly holder: string;
  readonly token: number;
  readonly untilMs: number;
}

export function memoryTableStore(options: MemoryTableStoreOptions): TableStore {
  return new MemoryTableStore(options);
}

class MemoryTableStore implements TableStore {
  readonly durability: Durability = "none";
  readonly #now: () => number;
  readonly #tables = new Map<string, Map<string, TableRow>>();
  readonly #leases = new Map<string, TableLease>();
  #counter = 0;
  #closed = false;

  constructor({ now }: MemoryTableStoreOptions) {
    this.#now = now;
  }

  async get(at: TableKey): Promise<TableRow | undefined> {
    this.#assertOpen();
    const row = this.#row(at);
    return row === undefined ? undefined : ownCopy(row);
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

  async delete(at: TableKey): Promise<boolean> {
    this.#assertOpen();
    const existed = this.#row(at) !== undefined;
    await this.batch([{ kind: "delete", ...at }]);
    return existed;
  }

  async list(table: string, prefix: string, { after, countMax }: KeyPage): Promise<readonly TableRow[]> {
    this.#assertOpen();
    const nowMs = this.#now();
    return [...(this.#tables.get(table)?.values() ?? [])]
      .filter((row) => row.key.startsWith(prefix) && !isEnded(row, nowMs))
      .filter((row) => after === undefined || byCodePoint(row.key, after) > 0)
      .toSorted((a, b) => byCodePoint(a.key, b.key))
      .slice(0, countMax)
      .map(ownCopy);
  }

  async batch(writes: readonly TableWrite[], fences: readonly Fence[] = []): Promise<BatchResult> {
    this.#assertOpen();
    assertBatch(writes);
    const broken = fences.find(({ lease, token }) => this.#lease(lease)?.token !== token);
    if (broken !== undefined) return { kind: "fenced", lease: broken.lease };
    const failed = writes.flatMap((write, place) => (this.#isExpected(write) ? [] : [place]));
    if (failed.length > 0) return { kind: "conflict", writes: failed };
    const version = ++this.#counter;
    for (const write of writes) this.#apply(write, version);
    return { kind: "written", version };
  }

  async acquire(lease: string, holder: string, leaseMs: number): Promise<LeaseAcquired | LeaseHeld> {
    this.#assertOpen();
    assertKey(lease);
    assertKey(holder);
    assertDurationMs(leaseMs);
    const held = this.#lease(lease);
    if (held !== undefined && held.holder !== holder) {
      return { kind: "held", holder: held.holder, leaseLeftMs: held.untilMs - this.#now() };
    }
    const token = ++this.#counter;
    this.#leases.set(lease, { holder, token, untilMs: this.#now() + leaseMs });
    return { kind: "acquired", token };
  }

  async renew(lease: string, token: number, leaseMs: number): Promise<boolean> {
    this.#assertOpen();
    assertDurationMs(leaseMs);
    const held = this.#lease(lease);
    if (held?.token !== token) return false;
    this.#leases.set(lease, { ...held, untilMs: Math.max(held.untilMs, this.#now() + leaseMs) });
    return true;
  }

  async release(lease: string, token: number): Promise<void> {
    this.#assertOpen();
    if (this.#lease(lease)?.token === token) this.#leases.delete(lease);
  }

  async sweep(countMax: number): Promise<number> {
    this.#assertOpen();
    const nowMs = this.#now();
    let count = 0;
    for (const rows of this.#tables.values()) {
      for (const row of rows.values()) {
        if (count < countMax && isEnded(row, nowMs) && rows.delete(row.key)) count += 1;
      }
    }
    for (const [name, lease] of this.#leases) {
      if (count < countMax && lease.untilMs <= nowMs && this.#leases.delete(name)) count += 1;
    }
    return count;
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #row({ table, key }: TableKey): TableRow | undefined {
    const row = this.#tables.get(table)?.get(key);
    return row === undefined || isEnded(row, this.#now()) ? undefined : row;
  }

  #lease(name: string): TableLease | undefined {
    const lease = this.#leases.get(name);
    return lease === undefined || lease.untilMs <= this.#now() ? undefined : lease;
  }

  #isExpected(write: TableWrite): boolean {
    if (write.expectedVersion === undefined) return true;
    return (this.#row(write)?.version ?? NO_ROW) === write.expectedVersion;
  }

  #apply(write: TableWrite, version: number): void {
    const { table, key } = write;
    const rows = this.#tables.get(table) ?? new Map<string, TableRow>();
    this.#tables.set(table, rows);
    if (write.kind === "delete") {
      rows.delete(key);
      return;
    }
    const expiresMs = write.ttlMs === undefined ? undefined : this.#now() + write.ttlMs;
    rows.set(key, { key, value: new Uint8Array(write.value), version, expiresMs });
  }

  #assertOpen(): void {
    if (this.#closed) throw new HoldfastError("unavailable", "the store is closed");
  }
}

function isEnded(row: TableRow, nowMs: number): boolean {
  return row.expiresMs !== undefined && row.expiresMs <= nowMs;
}

function ownCopy(row: TableRow): TableRow {
  return { ...row, value: row.value.slice() };
}
