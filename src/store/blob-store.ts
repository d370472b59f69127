/**
 * Where blobs live: immutable bytes named by their SHA-256.
 *
 * A blob lies in a *space*, chosen by the caller (a stream, a client's scope), so that one space never
 * learns what another one holds (E2). The id is checked against the bytes on every put and every get,
 * so neither a lying peer nor a bad disk can pass off other bytes (E5). A sealer, if given, stands
 * between the check and the storage: the id names the plaintext, the disk sees only sealed bytes.
 *
 * The whole-blob limit is `LIMITS.blobBytesMax`. A put is idempotent; a miss is said, never an empty blob.
 */
import { assert } from "../protocol/assert.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";

export interface BlobName {
  readonly space: string;
  /** The SHA-256 of the bytes: 64 lower-case hexadecimal digits. */
  readonly id: string;
}

/** A blob as it is stored. With `keepMs` its space has an end, so long from now on. */
export interface SealedBlob extends BlobName {
  readonly sealed: Uint8Array;
  readonly keepMs: number | undefined;
}

/** Seals what is stored, under a key that the store never sees. */
export interface BlobSealer {
  seal(name: BlobName, bytes: Uint8Array): Uint8Array;
  /** Throws when the bytes were not sealed for this name under this key. */
  open(name: BlobName, sealed: Uint8Array): Uint8Array;
}

export interface BlobPut {
  /** The blob was there before; its age begins anew, so that a clean-up under way spares it. */
  readonly existed: boolean;
}

export interface BlobFound {
  readonly kind: "found";
  readonly bytes: Uint8Array;
}

export interface BlobMiss {
  readonly kind: "miss";
}

export interface BlobListing {
  readonly id: string;
  readonly storedBytes: number;
  /** By the store's clock, of the last put. */
  readonly storedMs: number;
}

export interface Page {
  /** The last name of the page before; undefined for the first page. */
  readonly after: string | undefined;
  readonly countMax: number;
}

export interface BlobStore {
  /** Resolves once the blob is durable. With `keepMs` its space has an end, so long from now on. Rejects with `invalid_frame` when the id is not that of the bytes, `too_large` above the limit. */
  put(name: BlobName, bytes: Uint8Array, sealer?: BlobSealer, keepMs?: number): Promise<BlobPut>;
  /** Rejects with `stream_failed` when what is stored is no longer what the id names. */
  get(name: BlobName, sealer?: BlobSealer): Promise<BlobFound | BlobMiss>;
  has(name: BlobName): Promise<boolean>;
  /** True when there was one. */
  delete(name: BlobName): Promise<boolean>;
  /** The blobs of a space by id, to find those that nothing names any more. */
  list(space: string, page: Page): Promise<readonly BlobListing[]>;
  /** The spaces that hold something, in order. */
  listSpaces(page: Page): Promise<readonly string[]>;
  /** Deletes a whole space; returns how many blobs it held. */
  clear(space: string): Promise<number>;
  /** Clears spaces whose end has come, at most so many; returns how many. */
  sweepSpaces(countMax: number): Promise<number>;
  /** What the spaces hold whose names begin so. */
  storedBytes(prefix: string): Promise<number>;
  close(): Promise<void>;
}

/** Computes an id. */
export type Digest = (bytes: Uint8Array) => string;

const ID = /^[0-9a-f]{64}$/;

/** The checks of a put, the same for every store. */
export function checkPut(name: BlobName, bytes: Uint8Array, digest: Digest): void {
  assert(name.space.isWellFormed(), "a space is well-formed text");
  if (bytes.byteLength > LIMITS.blobBytesMax) {
    throw new HoldfastError(
      "too_large",
      `a blob has at most ${LIMITS.blobBytesMax} bytes, this one ${bytes.byteLength}`,
    );
  }
  if (!ID.test(name.id) || digest(bytes) !== name.id) {
    throw new HoldfastError("invalid_frame", "the blob id is not the SHA-256 of the bytes");
  }
}

/** The check of a get, the same for every store. */
export function checkGot(name: BlobName, bytes: Uint8Array, digest: Digest): void {
  if (digest(bytes) !== name.id) throw damagedBlob(name.id);
}

export function damagedBlob(id: string): HoldfastError {
  return new HoldfastError("stream_failed", `the stored blob ${id} is damaged`);
}
