/**
 * Where a client keeps its conversations' blobs: immutable bytes named by their SHA-256.
 *
 * The id is checked on every put and every get (E5), so neither a lying server nor a bad disk can pass off
 * other bytes. A put resolves once the blob is durable: the server learns so afterwards, and publishes the
 * checkpoint that names it only then.
 */
import { sha256 } from "../../protocol/sha256.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

export interface StoredBlob {
  /** 64 hexadecimal digits. */
  readonly id: string;
  /** When it was last put, by this client's clock. */
  readonly storedMs: number;
}

export interface ClientBlobStore {
  /** Undefined when there is none. Rejects with `stream_failed` when what is stored is not what the id names. */
  get(id: string): Promise<Uint8Array | undefined>;
  /** Rejects with `invalid_frame` when the id is not that of the bytes. Putting again makes the blob young again. */
  put(id: string, bytes: Uint8Array): Promise<void>;
  list(): AsyncIterable<StoredBlob>;
  /** True when there was one. With `storedMs` only if it was not put again since. */
  delete(id: string, storedMs?: number): Promise<boolean>;
}

export function blobIdOf(bytes: Uint8Array): string {
  return hexOf(sha256(bytes));
}

/** The checks of a put, the same for every store. */
export function checkBlob(id: string, bytes: Uint8Array, digest = blobIdOf): void {
  if (bytes.byteLength > LIMITS.blobBytesMax) {
    const message = `a blob has at most ${LIMITS.blobBytesMax} bytes, this one ${bytes.byteLength}`;
    throw new HoldfastError("too_large", message);
  }
  if (digest(bytes) !== id) {
    throw new HoldfastError("invalid_frame", "the blob id is not the SHA-256 of the bytes");
  }
}

/** The check of a get, the same for every store. */
export function checkedBlob(id: string, bytes: Uint8Array): Uint8Array {
  if (blobIdOf(bytes) === id) return bytes;
  throw damagedBlob(id);
}

export function damagedBlob(id: string, cause?: unknown): HoldfastError {
  return new HoldfastError("stream_failed", `the stored blob ${id} is damaged`, { cause });
}

/** Puts bytes under their own id. */
export async function putBytes(blobs: ClientBlobStore, bytes: Uint8Array): Promise<string> {
  const id = blobIdOf(bytes);
  await blobs.put(id, bytes);
  return id;
}

/** Blobs that end with the process. */
export function memoryBlobStore(now: () => number = Date.now): ClientBlobStore {
  const blobs = new Map<string, { readonly bytes: Uint8Array; readonly storedMs: number }>();
  return {
    get: async (id) => {
      const bytes = blobs.get(id)?.bytes;
      return bytes === undefined ? undefined : new Uint8Array(bytes);
    },
    put: async (id, bytes) => {
      const own = new Uint8Array(bytes);
      checkBlob(id, own);
      blobs.set(id, { bytes: own, storedMs: now() });
    },
    async *list() {
      for (const [id, { storedMs }] of blobs) yield { id, storedMs };
    },
    delete: async (id, storedMs) => {
      if (storedMs !== undefined && blobs.get(id)?.storedMs !== storedMs) return false;
      return blobs.delete(id);
    },
  };
}
