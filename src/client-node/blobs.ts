/**
 * A client's blobs as rows of two tables, sealed under the home key.
 *
 *     client_blobs        <id>           stored at, ms 8 | parts 4
 *     client_blob_parts   <id>/<part>    a part of the sealed bytes
 *
 * A blob is written as one batch: it is there as a whole or not at all, whatever process dies when, and
 * costs one sync that others share. Looking for what nothing names any more reads the small table only.
 *
 * A row is deleted only at the version that was looked at: what another process has put again since stays.
 */
import {
  checkBlob,
  checkedBlob,
  type ClientBlobStore,
  damagedBlob,
  type StoredBlob,
} from "../client/agent/blob-store.ts";
import type { SealedLabel, SyncSealer } from "../sealing/index.ts";
import type { TableKey, TableRow, TableStore, TableWrite } from "../store/table-store.ts";

const HEADS = "client_blobs";
const PARTS = "client_blob_parts";
const HEAD_BYTES = 12;
/** What one row holds, so that no single value is large. */
const PART_BYTES = 512 * 1024;
const PART_DIGITS = 4;
const PAGE_ROWS = 512;
const ID = /^[0-9a-f]{64}$/;

interface Head {
  readonly storedMs: number;
  readonly parts: number;
}

export interface TableBlobStoreOptions {
  readonly tables: TableStore;
  /** Under the home key. */
  readonly sealer: SyncSealer;
  readonly now: () => number;
}

export class TableBlobStore implements ClientBlobStore {
  readonly #tables: TableStore;
  readonly #sealer: SyncSealer;
  readonly #now: () => number;

  constructor({ tables, sealer, now }: TableBlobStoreOptions) {
    this.#tables = tables;
    this.#sealer = sealer;
    this.#now = now;
  }

  async get(id: string): Promise<Uint8Array | undefined> {
    if (!ID.test(id)) return undefined;
    for (;;) {
      const head = await this.#tables.get(headKey(id));
      if (head === undefined) return undefined;
      const sealed = await this.#read(id, decodeHead(id, head).parts);
      // It may have been deleted, or put again, between two reads.
      const again = await this.#tables.get(headKey(id));
      if (again?.version !== head.version) continue;
      if (sealed === undefined) throw damagedBlob(id);
      return this.#opened(id, sealed);
    }
  }

  async put(id: string, bytes: Uint8Array): Promise<void> {
    const own = new Uint8Array(bytes);
    checkBlob(id, own);
    const sealed = this.#sealer.seal(labelOf(id), own);
    const before = await this.#tables.get(headKey(id));
    const parts = Math.ceil(sealed.length / PART_BYTES);
    const writes: TableWrite[] = [
      { kind: "put", ...headKey(id), value: encodeHead({ storedMs: this.#now(), parts }) },
    ];
    for (let part = 0; part < parts; part++) {
      const value = sealed.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      writes.push({ kind: "put", ...partKey(id, part), value });
    }
    // Equal bytes have equally many parts, unless what was there is damaged.
    const stale = before === undefined ? 0 : decodeHead(id, before).parts;
    for (let part = parts; part < stale; part++) writes.push({ kind: "delete", ...partKey(id, part) });
    await this.#tables.batch(writes);
  }

  async *list(): AsyncGenerator<StoredBlob, void, undefined> {
    for (let after: string | undefined; ;) {
      const page = await this.#tables.list(HEADS, "", { after, countMax: PAGE_ROWS });
      for (const row of page) yield { id: row.key, storedMs: decodeHead(row.key, row).storedMs };
      after = page.at(-1)?.key;
      if (page.length < PAGE_ROWS || after === undefined) return;
    }
  }

  async delete(id: string, storedMs?: number): Promise<boolean> {
    if (!ID.test(id)) return false;
    const row = await this.#tables.get(headKey(id));
    if (row === undefined) return false;
    const head = decodeHead(id, row);
    if (storedMs !== undefined && head.storedMs !== storedMs) return false;
    const writes: TableWrite[] = [{ kind: "delete", ...headKey(id), expectedVersion: row.version }];
    for (let part = 0; part < head.parts; part++) writes.push({ kind: "delete", ...partKey(id, part) });
    return (await this.#tables.batch(writes)).kind === "written";
  }

  /** Undefined when a part is not there. */
  async #read(id: string, parts: number): Promise<Uint8Array | undefined> {
    const rows: Uint8Array[] = [];
    for (let part = 0; part < parts; part++) {
      const row = await this.#tables.get(partKey(id, part));
      if (row === undefined) return undefined;
      rows.push(row.value);
    }
    const [only] = rows;
    return rows.length === 1 && only !== undefined ? only : new Uint8Array(Buffer.concat(rows));
  }

  #opened(id: string, sealed: Uint8Array): Uint8Array {
    let bytes: Uint8Array;
    try {
      bytes = this.#sealer.open(labelOf(id), sealed);
    } catch (cause) {
      throw damagedBlob(id, cause);
    }
    return checkedBlob(id, bytes);
  }
}

function labelOf(id: string): SealedLabel {
  return { stream: "client-blobs", direction: "blob", first: 0, count: 1, kind: id };
}

function headKey(id: string): TableKey {
  return { table: HEADS, key: id };
}

function partKey(id: string, part: number): TableKey {
  return { table: PARTS, key: `${id}/${String(part).padStart(PART_DIGITS, "0")}` };
}

function encodeHead({ storedMs, parts }: Head): Uint8Array {
  const bytes = Buffer.alloc(HEAD_BYTES);
  bytes.writeBigUInt64BE(BigInt(Math.round(storedMs)), 0);
  bytes.writeUInt32BE(parts, 8);
  return new Uint8Array(bytes);
}

function decodeHead(id: string, { value }: TableRow): Head {
  if (value.length !== HEAD_BYTES) throw damagedBlob(id);
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return { storedMs: Number(bytes.readBigUInt64BE(0)), parts: bytes.readUInt32BE(8) };
}
