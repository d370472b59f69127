/**
 * Where a client keeps its journals: per stream an append-only list of sealed records.
 *
 * The contract is small on purpose, so that a database, a browser's IndexedDB and a simulated disk
 * can all keep it: an append is atomic, in order, and resolves only after a sync; what a crash takes
 * away is a suffix of what was not yet synced. A damaged record makes `read` reject; it is never
 * skipped (a gap here would run tools again).
 */
export interface JournalStore {
  /** The idempotency keys of all journals. */
  list(): Promise<readonly string[]>;
  /** All records of a journal in order; empty when there is none. Rejects with `stream_failed` when damaged. */
  read(idempotencyKey: string): Promise<readonly Uint8Array[]>;
  /** Adds records, all or none. Appends to one journal never overtake each other. Rejects with `unavailable` when the disk failed. */
  append(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void>;
  /**
   * The same append, told of twice: how a store gives a record `order` without a sync (`core/record-needs.ts`). Only where the stream's server keeps its logs on the same disk, in the same process, and
   * that disk makes writes durable in the order in which it was given them: whatever is done about the records after
   * `handedOver` cannot outlive them there. Everywhere else it is absent, and `order` is a sync.
   */
  readonly handOver?: ((idempotencyKey: string, records: readonly Uint8Array[]) => HandedOver) | undefined;
  /** Replaces the journal's records, all or none: compaction. */
  replace(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void>;
  remove(idempotencyKey: string): Promise<void>;
}

export interface HandedOver {
  /** The disk has been given the records, ahead of everything that it is given from now on. */
  readonly handedOver: Promise<void>;
  /** As `append` resolves and rejects. */
  readonly synced: Promise<void>;
}
