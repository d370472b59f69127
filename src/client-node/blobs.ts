/**
 * A client's blobs as rows of two tables, sealed under the home key.
 *
 *     client_blobs        <id>           stored at, ms 8 | parts 4
 *     client_blob_parts   <id>/<part>    a part of the sealed bytes
 *
 * A blob is written in one batch: it is there as a whole or not at all, whatever process dies when. Puts of the same
 * moment share one, so a history of a thousand messages is one call and one sync. Looking for what nothing names any
 * more reads the small table only.
 *
 * A row is deleted only at the version that was looked at: what another process has put again since stays.
 */
import { hash } from "node:crypto";
import { checkBlob, type ClientBlobStore, damagedBlob, type StoredBlob } from "../client/agent/blob-store.ts";
import type { SealedLabel, SyncSealer } from "../sealing/index.ts";
import {
  rowsOf,
  type TableKey,
  type TableRow,
  type TableStore,
  type TableWrite,
} from "../store/table-store.ts";

const HEADS = "client_blobs";
const PARTS = "client_blob_parts";
const HEAD_BYTES = 12;
/** What one row holds, so that no single value is large. */
const PART_BYTES = 512 * 1024;
const PART_DIGITS = 4;
/** What one batch holds, unless a single blob is larger: others wait for the commit that it is in. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** About 150 bytes each. */
const REMEMBERED_MAX = 16_384;
const ID = /^[0-9a-f]{64}$/;

interface Head {
  readonly storedMs: number;
  readonly parts: number;
}

interface TableBlobStoreOptions {
  readonly tables: TableStore;
  /** Under the home key. */
  readonly sealer: SyncSealer;
  readonly now: () => number;
  /**
   * How long a blob that this process has put is not written again: so much older it may seem to whoever clears away. Only where
   * nobody deletes younger ones. Default: 0.
   */
  readonly rememberMs?: number;
}

/** Puts of one moment. */
interface Group {
  readonly blobs: Map<string, Uint8Array>;
  bytes: number;
  readonly written: Promise<void>;
}

export class TableBlobStore implements ClientBlobStore {
  readonly #tables: TableStore;
  readonly #sealer: SyncSealer;
  readonly #now: () => number;
  readonly #rememberMs: number;
  /** When this process has put a blob, the longest ago first. */
  readonly #remembered = new Map<string, number>();
  #group: Group | undefined;
  /** On their way to the disk. */
  readonly #unwritten = new Map<string, Uint8Array>();

  constructor({ tables, sealer, now, rememberMs = 0 }: TableBlobStoreOptions) {
    this.#tables = tables;
    this.#sealer = sealer;
    this.#now = now;
    this.#rememberMs = rememberMs;
  }

  async get(id: string): Promise<Uint8Array | undefined> {
    if (!ID.test(id)) return undefined;
    const unwritten = this.#unwritten.get(id);
    if (unwritten !== undefined) return new Uint8Array(unwritten);
    let stored: Uint8Array | undefined;
    try {
      stored = await this.#stored(id);
      return stored;
    } finally {
      // Damaged or gone: putting it again mends it.
      if (stored === undefined) this.#remembered.delete(id);
    }
  }

  async #stored(id: string): Promise<Uint8Array | undefined> {
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
    checkBlob(id, bytes, digestOf);
    if (this.#isRemembered(id)) return;
    const own = new Uint8Array(bytes);
    if (this.#group !== undefined && this.#group.bytes + own.length > BATCH_BYTES_MAX)
      this.#group = undefined;
    this.#group ??= this.#newGroup();
    this.#group.blobs.set(id, own);
    this.#group.bytes += own.length;
    this.#unwritten.set(id, own);
    await this.#group.written;
  }

  /** Written when whatever runs now has run: who puts many blobs puts them at once. */
  #newGroup(): Group {
    const { promise: written, resolve, reject } = Promise.withResolvers<void>();
    const group: Group = { blobs: new Map(), bytes: 0, written };
    process.nextTick(() => {
      if (this.#group === group) this.#group = undefined;
      this.#write(group.blobs).then(resolve, reject);
    });
    return group;
  }

  async #write(blobs: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const storedMs = this.#now();
    try {
      await this.#tables.batch([...blobs].flatMap(([id, bytes]) => this.#rows(id, bytes, storedMs)));
      for (const id of blobs.keys()) this.#remember(id, storedMs);
    } finally {
      for (const [id, bytes] of blobs) if (this.#unwritten.get(id) === bytes) this.#unwritten.delete(id);
    }
  }

  /** Whatever is there is written over: equal bytes have equally many parts. */
  #rows(id: string, bytes: Uint8Array, storedMs: number): readonly TableWrite[] {
    const sealed = this.#sealer.seal(labelOf(id), bytes);
    const parts = Math.ceil(sealed.length / PART_BYTES);
    const head: TableWrite = { kind: "put", ...headKey(id), value: encodeHead({ storedMs, parts }) };
    const rows = Array.from({ length: parts }, (_, part): TableWrite => {
      const value = sealed.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      return { kind: "put", ...partKey(id, part), value };
    });
    return [head, ...rows];
  }

  #isRemembered(id: string): boolean {
    const storedMs = this.#remembered.get(id);
    return storedMs !== undefined && this.#now() - storedMs < this.#rememberMs;
  }

  #remember(id: string, storedMs: number): void {
    if (this.#rememberMs === 0) return;
    this.#remembered.delete(id);
    this.#remembered.set(id, storedMs);
    if (this.#remembered.size <= REMEMBERED_MAX) return;
    const [oldest] = this.#remembered.keys();
    if (oldest !== undefined) this.#remembered.delete(oldest);
  }

  async *list(): AsyncGenerator<StoredBlob, void, undefined> {
    for await (const row of rowsOf(this.#tables, HEADS)) {
      yield { id: row.key, storedMs: decodeHead(row.key, row).storedMs };
    }
  }

  async delete(id: string, storedMs?: number): Promise<boolean> {
    if (!ID.test(id)) return false;
    this.#remembered.delete(id);
    const row = await this.#tables.get(headKey(id));
    if (row === undefined) return false;
    const head = decodeHead(id, row);
    if (storedMs !== undefined && head.storedMs !== storedMs) return false;
    const writes: TableWrite[] = [{ kind: "delete", ...headKey(id), expectedVersion: row.version }];
    for (let part = 0; part < head.parts; part++) writes.push({ kind: "delete", ...partKey(id, part) });
    const isGone = (await this.#tables.batch(writes)).kind === "written";
    // Somebody may have put it, and this may have removed that one, since it was read.
    this.#remembered.delete(id);
    return isGone;
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
    if (digestOf(bytes) !== id) throw damagedBlob(id);
    return bytes;
  }
}

/** The one of Node is several times as fast as the one that browsers share. */
function digestOf(bytes: Uint8Array): string {
  return hash("sha256", bytes);
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
