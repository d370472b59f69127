/**
 * Blobs in memory: for tests, for the server's cache, for a client that keeps nothing.
 *
 * Bytes are copied on the way in and out, so nobody can change a blob after it was named (E5).
 */
import { createHash } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import type {
  BlobFound,
  BlobListing,
  BlobMiss,
  BlobName,
  BlobPut,
  BlobSealer,
  BlobStore,
  Digest,
  Page,
} from "./blob-store.ts";
import { checkGot, checkPut } from "./blob-store.ts";
import { byCodePoint } from "./key-order.ts";

export interface MemoryBlobStoreOptions {
  /** The clock that `storedMs` is taken from, in milliseconds. */
  readonly now: () => number;
  /** SHA-256 in lower-case hexadecimal digits. Default: `node:crypto`. */
  readonly digest?: Digest;
}

interface Stored {
  readonly bytes: Uint8Array;
  readonly storedMs: number;
}

export function sha256Hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function memoryBlobStore(options: MemoryBlobStoreOptions): BlobStore {
  return new MemoryBlobStore(options);
}

class MemoryBlobStore implements BlobStore {
  readonly #spaces = new Map<string, Map<string, Stored>>();
  readonly #now: () => number;
  readonly #digest: Digest;
  #closed = false;

  constructor({ now, digest = sha256Hex }: MemoryBlobStoreOptions) {
    this.#now = now;
    this.#digest = digest;
  }

  async put(name: BlobName, bytes: Uint8Array, sealer?: BlobSealer): Promise<BlobPut> {
    this.#assertOpen();
    const own = new Uint8Array(bytes);
    checkPut(name, own, this.#digest);
    const space = this.#spaces.get(name.space) ?? new Map<string, Stored>();
    const existed = space.has(name.id);
    space.set(name.id, { bytes: sealer?.seal(name, own) ?? own, storedMs: this.#now() });
    this.#spaces.set(name.space, space);
    return { existed };
  }

  async get(name: BlobName, sealer?: BlobSealer): Promise<BlobFound | BlobMiss> {
    this.#assertOpen();
    const stored = this.#spaces.get(name.space)?.get(name.id);
    if (stored === undefined) return { kind: "miss" };
    const bytes = new Uint8Array(sealer?.open(name, stored.bytes) ?? stored.bytes);
    checkGot(name, bytes, this.#digest);
    return { kind: "found", bytes };
  }

  async has(name: BlobName): Promise<boolean> {
    this.#assertOpen();
    return this.#spaces.get(name.space)?.has(name.id) ?? false;
  }

  async delete(name: BlobName): Promise<boolean> {
    this.#assertOpen();
    const space = this.#spaces.get(name.space);
    const deleted = space?.delete(name.id) ?? false;
    if (space?.size === 0) this.#spaces.delete(name.space);
    return deleted;
  }

  async list(space: string, page: Page): Promise<readonly BlobListing[]> {
    this.#assertOpen();
    const stored = this.#spaces.get(space) ?? new Map<string, Stored>();
    return pageOf(stored.keys(), page).flatMap((id) => {
      const found = stored.get(id);
      return found === undefined
        ? []
        : [{ id, storedBytes: found.bytes.byteLength, storedMs: found.storedMs }];
    });
  }

  async listSpaces(page: Page): Promise<readonly string[]> {
    this.#assertOpen();
    return pageOf(this.#spaces.keys(), page);
  }

  async clear(space: string): Promise<number> {
    this.#assertOpen();
    const count = this.#spaces.get(space)?.size ?? 0;
    this.#spaces.delete(space);
    return count;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#spaces.clear();
  }

  #assertOpen(): void {
    if (this.#closed) throw new HoldfastError("unavailable", "the store is closed");
  }
}

function pageOf(names: Iterable<string>, { after, countMax }: Page): readonly string[] {
  return [...names]
    .filter((name) => after === undefined || byCodePoint(name, after) > 0)
    .toSorted(byCodePoint)
    .slice(0, countMax);
}
