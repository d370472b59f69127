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
  /** Replaces the journal's records, all or none: compaction. */
  replace(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void>;
  remove(idempotencyKey: string): Promise<void>;
}
