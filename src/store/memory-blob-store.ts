/**
 * Blobs in memory: for tests, for the server's cache, for a client that keeps nothing.
 *
 * Bytes are copied on the way in and out, so nobody can change a blob after it was named (E5).
 */
import { createHash } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import type { BlobStore, Digest, Page } from "./blob-store.ts";
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

export function memoryBlobStore({ now, digest = sha256Hex }: MemoryBlobStoreOptions): BlobStore {
  const spaces = new Map<string, Map<string, Stored>>();
  let isClosed = false;

  function openSpaces(): Map<string, Map<string, Stored>> {
    if (isClosed) throw new HoldfastError("unavailable", "the store is closed");
    return spaces;
  }

  return {
    async put(name, bytes, sealer) {
      openSpaces();
      const own = new Uint8Array(bytes);
      checkPut(name, own, digest);
      const space = spaces.get(name.space) ?? new Map<string, Stored>();
      const existed = space.has(name.id);
      space.set(name.id, { bytes: sealer?.seal(name, own) ?? own, storedMs: now() });
      spaces.set(name.space, space);
      return { existed };
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
    async clear(space) {
      const count = openSpaces().get(space)?.size ?? 0;
      spaces.delete(space);
      return count;
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
