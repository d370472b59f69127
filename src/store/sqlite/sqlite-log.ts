/** The commit log over the database's thread: one row per group commit, durable when `append` resolves. */
import type { CommitLog, LogRow } from "../commit-log.ts";
import type { Durability } from "../../protocol/frames.ts";
import { ownBuffer } from "./own-buffer.ts";
import type { Thread } from "./thread.ts";

/** Large enough that a message costs little beside it, small enough that several fit in memory. */
const SCAN_BYTES = 4 * 1024 * 1024;

export interface ScanProgress {
  readonly rows: number;
  readonly bytes: number;
  readonly bytesTotal: number;
}

export class SqliteLog implements CommitLog {
  readonly durability: Durability = "fsync";
  readonly #thread: Thread;
  readonly #onProgress: ((progress: ScanProgress) => void) | undefined;

  constructor(thread: Thread, onProgress: ((progress: ScanProgress) => void) | undefined) {
    this.#thread = thread;
    this.#onProgress = onProgress;
  }

  /** The next page is read while the caller works on this one. */
  async *scan(): AsyncGenerator<LogRow> {
    let rows = 0;
    let bytes = 0;
    const bytesTotal =
      this.#onProgress === undefined ? 0 : (await this.#thread.call("logSize", undefined)).bytes;
    let coming = this.#thread.call("scan", { after: 0, bytesMax: SCAN_BYTES });
    for (;;) {
      const page = await coming;
      const last = page.rows.at(-1);
      if (!page.isLast && last !== undefined) {
        coming = this.#thread.call("scan", { after: last.row, bytesMax: SCAN_BYTES });
        // Whoever stops scanning early does not wait for it.
        coming.catch(() => undefined);
      }
      for (const row of page.rows) {
        rows += 1;
        bytes += row.record.byteLength;
        yield row;
      }
      this.#onProgress?.({ rows, bytes, bytesTotal });
      if (page.isLast) return;
    }
  }

  /** The memory passes on to the thread. */
  append(record: Uint8Array, body?: Uint8Array, freed: readonly number[] = []): Promise<number> {
    const own = ownBuffer(record);
    const ownBody = body === undefined ? undefined : ownBuffer(body);
    const transfer = ownBody === undefined ? [own.buffer] : [own.buffer, ownBody.buffer];
    return this.#thread.call("append", { record: own, body: ownBody, freed }, transfer);
  }

  read(row: number): Promise<Uint8Array> {
    return this.#thread.call("read", { row });
  }

  readBody(row: number): Promise<Uint8Array> {
    return this.#thread.call("readBody", { row });
  }

  drop(rows: readonly number[]): Promise<void> {
    return this.#thread.call("drop", { rows });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
