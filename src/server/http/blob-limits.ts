/**
 * What blobs under way may cost this server (E8, F2).
 */

export interface BlobLimits {
  /** Memory for all blobs that are coming in or going out. At least twice the largest blob. */
  readonly heldBytesMax: number;
  /** So many requests may wait for that memory. */
  readonly waitingMax: number;
  /** Nothing came, or nothing was taken, for so long: the client is gone or plays dead. */
  readonly stallMs: number;
  /** From the first to the last byte. */
  readonly totalMs: number;
}

export const BLOB_DEFAULTS: BlobLimits = Object.freeze({
  heldBytesMax: 256 * 1024 * 1024,
  waitingMax: 256,
  stallMs: 20_000,
  // 64 MiB at 2 Mbit/s.
  totalMs: 300_000,
});
