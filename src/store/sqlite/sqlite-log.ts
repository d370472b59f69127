/** The commit log over the database's thread: one row per group commit, durable when `append` resolves. */
import type { CommitLog } from "../commit-log.ts";
import type { Thread } from "./thread.ts";

/** Large enough that a message costs little beside it, small enough that several fit in memory. */
const SCAN_BYTES = 4 * 1024 * 1024;

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
          // Whoever stops scanning early does not wait for it.
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
    read: (row) => thread.call("read", { row }),
    readBody: (row) => thread.call("readBody", { row }),
    drop: (rows) => thread.call("drop", { rows }),
    close: () => thread.close(),
  };
}

/**
 * Bytes whose memory can be handed to another thread: a view of a larger buffer is copied, because
 * handing it on would take the rest of the buffer away from whoever else looks into it.
 */
function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes;
  const isWhole = byteOffset === 0 && byteLength === buffer.byteLength;
  return isWhole && buffer instanceof ArrayBuffer && !buffer.resizable
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}
