/**
 * Blobs in memory: for tests, for the server's cache, for a client that keeps nothing.
 *
 * Bytes are copied on the way in and out, so no caller can change a blob after it was named (E5).
 */
import { createHash } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import type { BlobName, BlobStore, Digest, Page, SealedBlob } from "./blob-store.ts";
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

export interface MemoryBlobStore extends BlobStore {
  /** What a commit log does with the blobs of an append. */
  readonly store: (blob: SealedBlob) => void;
}

export function memoryBlobStore({ now, digest = sha256Hex }: MemoryBlobStoreOptions): MemoryBlobStore {
  const spaces = new Map<string, Map<string, Stored>>();
  /** Of those that have one. */
  const ends = new Map<string, number>();
  let isClosed = false;

  function openSpaces(): Map<string, Map<string, Stored>> {
    if (isClosed) throw new HoldfastError("unavailable", "the store is closed");
    return spaces;
  }

  function add({ space: spaceName, id }: BlobName, bytes: Uint8Array, keepMs: number | undefined): boolean {
    const space = openSpaces().get(spaceName) ?? new Map<string, Stored>();
    const existed = space.has(id);
    space.set(id, { bytes, storedMs: now() });
    spaces.set(spaceName, space);
    if (keepMs !== undefined) ends.set(spaceName, now() + keepMs);
    return existed;
  }

  function clear(space: string): number {
    const count = openSpaces().get(space)?.size ?? 0;
    spaces.delete(space);
    ends.delete(space);
    return count;
  }

  return {
    store: (blob) => void add(blob, new Uint8Array(blob.sealed), blob.keepMs),
    async put(name, bytes, sealer, keepMs) {
      openSpaces();
      const own = new Uint8Array(bytes);
      checkPut(name, own, digest);
      return { existed: add(name, sealer?.seal(name, own) ?? own, keepMs) };
    },
    async get(name, sealer) {
      const stored = openSpaces().get(name.space)?.get(name.id);
      if (stored === undefined) return { kind: "miss" };
      const bytes = new Uint8Array(sealer?.open(name, stored.bytes) ?? stored.bytes);
      checkGot(name, bytes, digest);
      return { kind: "found", bytes };
    },
    has: async (name) => openSpaces().get(name.space)?.has(name.id) ?? false,
    async delete(name) {
      const space = openSpaces().get(name.space);
      const deleted = space?.delete(name.id) ?? false;
      if (space?.size === 0) spaces.delete(name.space);
      return deleted;
    },
    async list(space, page) {
      const stored = openSpaces().get(space) ?? new Map<string, Stored>();
      return pageOf(stored.keys(), page).flatMap((id) => {
        const found = stored.get(id);
        return found === undefined
          ? []
          : [{ id, storedBytes: found.bytes.byteLength, storedMs: found.storedMs }];
      });
    },
    listSpaces: async (page) => pageOf(openSpaces().keys(), page),
    clear: async (space) => clear(space),
    async sweepSpaces(countMax) {
      const over = [...ends].filter(([, endMs]) => endMs <= now()).slice(0, countMax);
      for (const [space] of over) clear(space);
      return over.length;
    },
    async storedBytes(prefix) {
      const sizes = [...openSpaces()]
        .filter(([space]) => space.startsWith(prefix))
        .flatMap(([, stored]) => [...stored.values()].map(({ bytes }) => bytes.byteLength));
      return sizes.reduce((sum, size) => sum + size, 0);
    },
    async close() {
      isClosed = true;
      spaces.clear();
    },
  };
}

function pageOf(names: Iterable<string>, { after, countMax }: Page): readonly string[] {
  return [...names]
    .filter((name) => after === undefined || byCodePoint(name, after) > 0)
    .toSorted(byCodePoint)
    .slice(0, countMax);
}
