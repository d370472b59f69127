/**
 * Blobs over the database's thread, in parts of a bounded size.
 *
 * A part is one request, sent when the one before is durable, so a large blob never makes a transaction
 * long and the streams' commits go on between its parts. The blob is there when its name is.
 */
import { assert } from "../../protocol/assert.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type {
  BlobFound,
  BlobListing,
  BlobMiss,
  BlobName,
  BlobPut,
  BlobSealer,
  BlobStore,
  Page,
} from "../blob-store.ts";
import { checkGot, checkPut } from "../blob-store.ts";
import { sha256Hex } from "../memory-blob-store.ts";
import type { Thread } from "./thread.ts";

const PART_BYTES = 512 * 1024;

export class SqliteBlobs implements BlobStore {
  readonly #thread: Thread;
  readonly #now: () => number;

  constructor(thread: Thread, now: () => number) {
    this.#thread = thread;
    this.#now = now;
  }

  async put({ space, id }: BlobName, bytes: Uint8Array, sealer?: BlobSealer): Promise<BlobPut> {
    assert(!space.includes("\0"), "a space is text without NUL");
    // A Buffer's own `slice` would be a view.
    const own = new Uint8Array(bytes);
    checkPut({ space, id }, own, sha256Hex);
    const stored = sealer?.seal({ space, id }, own) ?? own;
    let upload: number | undefined;
    for (let part = 0; part === 0 || part * PART_BYTES < stored.byteLength; part++) {
      const body = new Uint8Array(stored.subarray(part * PART_BYTES, (part + 1) * PART_BYTES));
      const sent = await this.#thread.call("putPart", { upload, part, bytes: body }, [body.buffer]);
      upload = sent.upload;
    }
    assert(upload !== undefined, "a blob has at least one part");
    const storedBytes = stored.byteLength;
    return this.#thread.call("nameBlob", { space, id, upload, storedBytes, nowMs: this.#now() });
  }

  async get({ space, id }: BlobName, sealer?: BlobSealer): Promise<BlobFound | BlobMiss> {
    const stored = await this.#read(space, id);
    if (stored === undefined) return { kind: "miss" };
    const bytes = sealer?.open({ space, id }, stored) ?? stored;
    checkGot({ space, id }, bytes, sha256Hex);
    return { kind: "found", bytes };
  }

  async has({ space, id }: BlobName): Promise<boolean> {
    return (await this.#thread.call("findBlob", { space, id })) !== undefined;
  }

  delete({ space, id }: BlobName): Promise<boolean> {
    return this.#thread.call("deleteBlob", { space, id });
  }

  list(space: string, { after, countMax }: Page): Promise<readonly BlobListing[]> {
    return this.#thread.call("listBlobs", { space, page: { after, countMax } });
  }

  listSpaces({ after, countMax }: Page): Promise<readonly string[]> {
    return this.#thread.call("listSpaces", { page: { after, countMax } });
  }

  clear(space: string): Promise<number> {
    return this.#thread.call("clearSpace", { space });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /** A blob that is put anew or deleted while its parts are read lies elsewhere then, or nowhere: look again. */
  async #read(space: string, id: string): Promise<Uint8Array | undefined> {
    for (;;) {
      const found = await this.#thread.call("findBlob", { space, id });
      if (found === undefined) return undefined;
      const bytes = await this.#readParts(found.upload, found.storedBytes);
      if (bytes !== undefined) return bytes;
      const again = await this.#thread.call("findBlob", { space, id });
      if (again?.upload === found.upload) {
        throw new HoldfastError("stream_failed", `the stored blob ${id} is damaged`);
      }
    }
  }

  async #readParts(upload: number, storedBytes: number): Promise<Uint8Array | undefined> {
    const bytes = new Uint8Array(storedBytes);
    let filled = 0;
    for (let part = 0; filled < storedBytes; part++) {
      const body = await this.#thread.call("readPart", { upload, part });
      if (body === undefined || filled + body.byteLength > storedBytes) return undefined;
      bytes.set(body, filled);
      filled += body.byteLength;
    }
    return bytes;
  }
}
