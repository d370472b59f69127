/**
 * The disk under a store: an append-only list of records, each synced whole.
 *
 * One record is one group commit and holds the entries of every stream in it; the index over it
 * lives in memory and is rebuilt by `scan` (measured: about eight times the throughput of a
 * row per event). Whatever can do these six things can carry every store we have.
 *
 * A row may have a body besides its record: bytes that `scan` passes over, for what a start need not read.
 * Both are durable together.
 *
 * A record is there whole after a crash or not at all; `scan` refuses a damaged one (`stream_failed`)
 * unless it is the torn tail of an append that was never acknowledged. After a failed append the
 * log is dead: every call rejects, nothing is retried on it (F5).
 */
import type { Durability } from "../protocol/frames.ts";
import type { SealedBlob } from "./blob-store.ts";

export interface LogRow {
  readonly row: number;
  readonly record: Uint8Array;
}

export interface RewrittenRow extends LogRow {
  /** Undefined: it stays as it is. */
  readonly body: Uint8Array | undefined;
}

export interface CommitLog {
  readonly durability: Durability;
  /** All rows in order. Called before the first append, and to rewrite some. */
  scan(): AsyncIterable<LogRow>;
  /**
   * Resolves with the row's number once it is durable. The caller waits for one before the next. The bytes
   * belong to the log from then on. The rows in `freed` are dropped on the way, without a sync of their own. `blobs` are put into
   * the blob store beside the log: they are durable with the row or not at all.
   */
  append(
    record: Uint8Array,
    body?: Uint8Array,
    freed?: readonly number[],
    blobs?: readonly SealedBlob[],
  ): Promise<number>;
  read(row: number): Promise<Uint8Array>;
  /** Empty when the row has none. */
  readBody(row: number): Promise<Uint8Array>;
  /** Gives the rows' space back. May be lost in a crash: rows dropped twice are no error. */
  drop(rows: readonly number[]): Promise<void>;
  /** Puts these in the place of what the rows hold; one that is gone stays gone. Absent where nothing lies on a disk. */
  rewrite?(rows: readonly RewrittenRow[]): Promise<void>;
  close(): Promise<void>;
}
