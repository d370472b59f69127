/**
 * The commit log over the database's thread: one row per group commit, durable when `append` resolves.
 *
 * A stream that was written word by word has a row for each word. Rows that are asked for in one go are one message to the thread and one back.
 */
import type { CommitLog } from "../commit-log.ts";
import type { Thread } from "./thread.ts";

/** Large enough that a message costs little beside it, small enough that several fit in memory. */
const SCAN_BYTES = 4 * 1024 * 1024;

/** The thread commits between two reads: one of so much holds up no commit. */
const ROWS_BYTES = 256 * 1024;

export interface ScanProgress {
  readonly rows: number;
  readonly bytes: number;
  readonly bytesTotal: number;
}

export function sqliteLog(
  thread: Thread,
  now: () => number,
  onProgress?: (progress: ScanProgress) => void,
): CommitLog {
  return {
    durability: "fsync",
    /** The next page is read while the caller works on this one. */
    async *scan() {
      let rows = 0;
      let bytes = 0;
      const bytesTotal = onProgress === undefined ? 0 : await thread.call("logBytes", undefined);
      let coming = thread.call("scan", { after: 0, bytesMax: SCAN_BYTES });
      for (;;) {
        const page = await coming;
        const last = page.rows.at(-1);
        if (!page.isLast && last !== undefined) {
          coming = thread.call("scan", { after: last.row, bytesMax: SCAN_BYTES });
          // A caller that stops scanning early does not wait for it.
          coming.catch(() => undefined);
        }
        for (const row of page.rows) {
          rows += 1;
          bytes += row.record.byteLength;
          yield row;
        }
        onProgress?.({ rows, bytes, bytesTotal });
        if (page.isLast) return;
      }
    },
    /** The memory passes on to the thread. */
    append(record, body, freed = [], blobs = []) {
      const own = ownBuffer(record);
      const ownBody = body === undefined ? undefined : ownBuffer(body);
      const transfer = ownBody === undefined ? [own.buffer] : [own.buffer, ownBody.buffer];
      return thread.call("append", { record: own, body: ownBody, freed, blobs, nowMs: now() }, transfer);
    },
    read: rowReads(thread),
    readBody: (row) => thread.call("readBody", { row }),
    drop: (rows) => thread.call("drop", { rows }),
    rewrite: (rows) => thread.call("rewrite", { rewritten: rows }),
    close: () => thread.close(),
  };
}

interface RowRead {
  readonly row: number;
  readonly resolve: (record: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

function rowReads(thread: Thread): CommitLog["read"] {
  let asked: RowRead[] = [];

  function readEach(reads: readonly RowRead[]): void {
    for (const { row, resolve, reject } of reads) thread.call("read", { row }).then(resolve, reject);
  }

  /** A row that is gone or damaged fails its own read alone. */
  async function readTogether(reads: readonly RowRead[]): Promise<void> {
    for (let rest = reads; rest.length > 0;) {
      const wanted = { rows: rest.map(({ row }) => row), bytesMax: ROWS_BYTES };
      const page =
        rest.length === 1 ? undefined : await thread.call("readRows", wanted).catch(() => undefined);
      if (page === undefined) return readEach(rest);
      for (const [at, { record }] of page.rows.entries()) rest[at]?.resolve(record);
      rest = rest.slice(page.rows.length);
    }
  }

  function ask(): void {
    const reads = asked;
    asked = [];
    void readTogether(reads);
  }

  return (row) =>
    new Promise((resolve, reject) => {
      asked.push({ row, resolve, reject });
      if (asked.length === 1) queueMicrotask(ask);
    });
}

/**
 * Bytes whose memory can be handed to another thread: a view of a larger buffer is copied, because
 * handing it on would take the rest of the buffer away from its other views.
 */
function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes;
  const isWhole = byteOffset === 0 && byteLength === buffer.byteLength;
  return isWhole && buffer instanceof ArrayBuffer && !buffer.resizable
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}
