/**
 * A commit log in memory: the disk of tests, of the simulator and of a server that keeps nothing.
 *
 * The rows outlive the handle, as files outlive a process: `reopened` gives a new handle on the same
 * rows, so a restart can be played through without a disk.
 */
import type { Durability } from "../protocol/frames.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { SealedBlob } from "./blob-store.ts";
import type { CommitLog, LogRow } from "./commit-log.ts";
import { openLogStreamStore } from "./log-stream-store.ts";
import type { StreamStore } from "./stream-store.ts";

export interface MemoryLogOptions {
  /** What the log claims to survive; anything but "none" is for tests. */
  readonly durability?: Durability;
  /** Where the blobs of appends go. Default: no commit has any. */
  readonly storeBlob?: ((blob: SealedBlob) => void) | undefined;
}

/** What outlives a handle. */
export interface Rows {
  readonly records: Map<number, Uint8Array>;
  /** Of the rows that have one. */
  readonly bodies: Map<number, Uint8Array>;
  next: number;
}

const NO_BYTES = new Uint8Array(0);

export class MemoryLog implements CommitLog {
  readonly durability: Durability;
  readonly rows: Rows;
  readonly #storeBlob: (blob: SealedBlob) => void;
  #closed = false;

  constructor(
    options: MemoryLogOptions = {},
    rows: Rows = { records: new Map(), bodies: new Map(), next: 1 },
  ) {
    this.durability = options.durability ?? "none";
    this.rows = rows;
    this.#storeBlob = options.storeBlob ?? noBlobs;
  }

  /** The same rows under a new handle. */
  reopened(): MemoryLog {
    return new MemoryLog({ durability: this.durability, storeBlob: this.#storeBlob }, this.rows);
  }

  get rowCount(): number {
    return this.rows.records.size;
  }

  /** How many records have been appended, dropped ones included. */
  get appendCount(): number {
    return this.rows.next - 1;
  }

  async *scan(): AsyncIterable<LogRow> {
    this.#assertOpen();
    for (const [row, record] of this.rows.records) yield { row, record };
  }

  async append(
    record: Uint8Array,
    body?: Uint8Array,
    freed: readonly number[] = [],
    blobs: readonly SealedBlob[] = [],
  ): Promise<number> {
    this.#assertOpen();
    this.#remove(freed);
    for (const blob of blobs) this.#storeBlob(blob);
    const row = this.rows.next++;
    this.rows.records.set(row, record);
    if (body !== undefined) this.rows.bodies.set(row, body);
    return row;
  }

  async read(row: number): Promise<Uint8Array> {
    this.#assertOpen();
    const record = this.rows.records.get(row);
    if (record === undefined) throw noRow(row);
    return record;
  }

  async readBody(row: number): Promise<Uint8Array> {
    this.#assertOpen();
    if (!this.rows.records.has(row)) throw noRow(row);
    return this.rows.bodies.get(row) ?? NO_BYTES;
  }

  async drop(rows: readonly number[]): Promise<void> {
    this.#assertOpen();
    this.#remove(rows);
  }

  #remove(rows: readonly number[]): void {
    for (const row of rows) {
      this.rows.records.delete(row);
      this.rows.bodies.delete(row);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #assertOpen(): void {
    if (this.#closed) throw new HoldfastError("unavailable", "the log is closed");
  }
}

function noBlobs(): never {
  throw new HoldfastError("unavailable", "this log has no blob store beside it");
}

function noRow(row: number): HoldfastError {
  return new HoldfastError("unavailable", `the log has no row ${row}`);
}

export interface MemoryStreamStoreOptions {
  /** The clock of leases and retention, in milliseconds. */
  readonly now: () => number;
  /** As for `MemoryLog`. */
  readonly storeBlob?: MemoryLogOptions["storeBlob"];
}

export function memoryStreamStore(options: MemoryStreamStoreOptions): Promise<StreamStore> {
  return openLogStreamStore(new MemoryLog({ storeBlob: options.storeBlob }), options);
}
