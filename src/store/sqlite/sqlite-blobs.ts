/**
 * Blobs over the database's thread, in parts of a bounded size.
 *
 * A part is one request, sent when the one before is durable, so a large blob never makes a transaction
 * long and the streams' commits continue between its parts. The blob is there when its name is.
 */
import { assert } from "../../protocol/assert.ts";
import type { BlobStore } from "../blob-store.ts";
import { checkGot, checkPut, damagedBlob } from "../blob-store.ts";
import { sha256Hex } from "../memory-blob-store.ts";
import type { Thread } from "./thread.ts";

const PART_BYTES = 512 * 1024;

export function sqliteBlobs(thread: Thread, now: () => number): BlobStore {
  /** A blob that is put anew or deleted while its parts are read lies elsewhere then, or nowhere: look again. */
  async function read(space: string, id: string): Promise<Uint8Array | undefined> {
    for (;;) {
      const found = await thread.call("findBlob", { space, id });
      if (found === undefined) return undefined;
      const bytes = await readParts(found.upload, found.storedBytes);
      if (bytes !== undefined) return bytes;
      const again = await thread.call("findBlob", { space, id });
      if (again?.upload === found.upload) throw damagedBlob(id);
    }
  }

  async function readParts(upload: number, storedBytes: number): Promise<Uint8Array | undefined> {
    const bytes = new Uint8Array(storedBytes);
    let filled = 0;
    for (let part = 0; filled < storedBytes; part++) {
      const body = await thread.call("readPart", { upload, part });
      if (body === undefined || filled + body.byteLength > storedBytes) return undefined;
      bytes.set(body, filled);
      filled += body.byteLength;
    }
    return bytes;
  }

  return {
    async put({ space, id }, bytes, sealer, keepMs) {
      assert(!space.includes("\0"), "a space is text without NUL");
      // A Buffer's own `slice` would be a view.
      const own = new Uint8Array(bytes);
      checkPut({ space, id }, own, sha256Hex);
      const stored = sealer?.seal({ space, id }, own) ?? own;
      let upload: number | undefined;
      for (let part = 0; part === 0 || part * PART_BYTES < stored.byteLength; part++) {
        const body = new Uint8Array(stored.subarray(part * PART_BYTES, (part + 1) * PART_BYTES));
        const sent = await thread.call("putPart", { upload, part, bytes: body }, [body.buffer]);
        upload = sent.upload;
      }
      assert(upload !== undefined, "a blob has at least one part");
      const storedBytes = stored.byteLength;
      return thread.call("nameBlob", { space, id, upload, storedBytes, nowMs: now(), keepMs });
    },
    async get({ space, id }, sealer) {
      const stored = await read(space, id);
      if (stored === undefined) return { kind: "miss" };
      const bytes = sealer?.open({ space, id }, stored) ?? stored;
      checkGot({ space, id }, bytes, sha256Hex);
      return { kind: "found", bytes };
    },
    has: async ({ space, id }) => (await thread.call("findBlob", { space, id })) !== undefined,
    delete: ({ space, id }) => thread.call("deleteBlob", { space, id }),
    list: (space, { after, countMax }) => thread.call("listBlobs", { space, page: { after, countMax } }),
    listSpaces: ({ after, countMax }) => thread.call("listSpaces", { page: { after, countMax } }),
    clear: (space) => thread.call("clearSpace", { space }),
    sweepSpaces: (countMax) => thread.call("sweepSpaces", { countMax, nowMs: now() }),
    storedBytes: (prefix) => thread.call("storedBytes", { prefix }),
    close: () => thread.close(),
  };
}
