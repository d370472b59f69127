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
import { checkBlob, type ClientBlobStore, damagedBlob } from "../client/agent/blob-store.ts";
import { putLast } from "../protocol/put-last.ts";
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
   * How long a blob that this process has put is not written again: so much older it may seem to a clean-up. Only where
   * no process deletes younger ones. Default: 0.
   */
  readonly rememberMs?: number;
}

/** Puts of one moment. */
interface Group {
  readonly blobs: Map<string, Uint8Array>;
  bytes: number;
  readonly written: Promise<void>;
}

export function tableBlobStore({
  tables,
  sealer,
  now,
  rememberMs = 0,
}: TableBlobStoreOptions): ClientBlobStore {
  /** When this process has put a blob, the longest ago first. */
  const remembered = new Map<string, number>();
  let group: Group | undefined;
  /** On their way to the disk. */
  const unwritten = new Map<string, Uint8Array>();

  async function stored(id: string): Promise<Uint8Array | undefined> {
    for (;;) {
      const head = await tables.get(headKey(id));
      if (head === undefined) return undefined;
      const sealed = await read(id, decodeHead(id, head).parts);
      // It may have been deleted, or put again, between two reads.
      const again = await tables.get(headKey(id));
      if (again?.version !== head.version) continue;
      if (sealed === undefined) throw damagedBlob(id);
      return opened(id, sealed);
    }
  }

  /** Blobs are written when the code that runs now has finished, so that blobs put one after the other are one write. */
  function newGroup(): Group {
    const { promise: written, resolve, reject } = Promise.withResolvers<void>();
    const made: Group = { blobs: new Map(), bytes: 0, written };
    process.nextTick(() => {
      if (group === made) group = undefined;
      write(made.blobs).then(resolve, reject);
    });
    return made;
  }

  async function write(blobs: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const storedMs = now();
    try {
      await tables.batch([...blobs].flatMap(([id, bytes]) => writesOf(id, bytes, storedMs)));
      if (rememberMs === 0) return;
      for (const id of blobs.keys()) putLast(remembered, id, storedMs, REMEMBERED_MAX);
    } finally {
      for (const [id, bytes] of blobs) if (unwritten.get(id) === bytes) unwritten.delete(id);
    }
  }

  /** Whatever is there is written over: equal bytes have equally many parts. */
  function writesOf(id: string, bytes: Uint8Array, storedMs: number): readonly TableWrite[] {
    const sealed = sealer.seal(labelOf(id), bytes);
    const parts = Math.ceil(sealed.length / PART_BYTES);
    const head: TableWrite = { kind: "put", ...headKey(id), value: encodeHead({ storedMs, parts }) };
    const rows = Array.from({ length: parts }, (_, part): TableWrite => {
      const value = sealed.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      return { kind: "put", ...partKey(id, part), value };
    });
    return [head, ...rows];
  }

  /** Undefined when a part is not there. */
  async function read(id: string, parts: number): Promise<Uint8Array | undefined> {
    const rows: Uint8Array[] = [];
    for (let part = 0; part < parts; part++) {
      const row = await tables.get(partKey(id, part));
      if (row === undefined) return undefined;
      rows.push(row.value);
    }
    const [only] = rows;
    return rows.length === 1 && only !== undefined ? only : new Uint8Array(Buffer.concat(rows));
  }

  function opened(id: string, sealed: Uint8Array): Uint8Array {
    let bytes: Uint8Array;
    try {
      bytes = sealer.open(labelOf(id), sealed);
    } catch (cause) {
      throw damagedBlob(id, cause);
    }
    if (digestOf(bytes) !== id) throw damagedBlob(id);
    return bytes;
  }

  return {
    async get(id) {
      if (!ID.test(id)) return undefined;
      const waiting = unwritten.get(id);
      if (waiting !== undefined) return new Uint8Array(waiting);
      let found: Uint8Array | undefined;
      try {
        found = await stored(id);
        return found;
      } finally {
        // Damaged or gone: putting it again mends it.
        if (found === undefined) remembered.delete(id);
      }
    },
    async put(id, bytes) {
      checkBlob(id, bytes, digestOf);
      if (now() - (remembered.get(id) ?? -Infinity) < rememberMs) return;
      const own = new Uint8Array(bytes);
      if (group !== undefined && group.bytes + own.length > BATCH_BYTES_MAX) group = undefined;
      group ??= newGroup();
      group.blobs.set(id, own);
      group.bytes += own.length;
      unwritten.set(id, own);
      await group.written;
    },
    async *list() {
      for await (const row of rowsOf(tables, HEADS)) {
        yield { id: row.key, storedMs: decodeHead(row.key, row).storedMs };
      }
    },
    async delete(id, storedMs) {
      if (!ID.test(id)) return false;
      remembered.delete(id);
      const row = await tables.get(headKey(id));
      if (row === undefined) return false;
      const head = decodeHead(id, row);
      if (storedMs !== undefined && head.storedMs !== storedMs) return false;
      const writes: TableWrite[] = [{ kind: "delete", ...headKey(id), expectedVersion: row.version }];
      for (let part = 0; part < head.parts; part++) writes.push({ kind: "delete", ...partKey(id, part) });
      const isGone = (await tables.batch(writes)).kind === "written";
      // Another process may have put it, and this may have removed that one, since it was read.
      remembered.delete(id);
      return isGone;
    },
  };
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
