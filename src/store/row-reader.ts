/**
 * Rows read from the commit log, the last few kept.
 *
 * A row holds batches of many streams, and after a restart many clients return at once and want the
 * same rows; whoever asks for a row that is being read joins that read.
 */
import { entriesOf } from "./commit-record.ts";
import type { StreamEntry } from "./commit-record.ts";
import type { CommitLog } from "./commit-log.ts";

/** Small rows are cheap to read again; many of them would only make the keeping dear. */
const ROWS_MAX = 256;

export class RowReader {
  readonly #log: CommitLog;
  readonly #bytesMax: number;
  /** In the order of their last use. */
  readonly #kept = new Map<number, Uint8Array>();
  readonly #reading = new Map<number, Promise<Uint8Array>>();
  #bytes = 0;

  constructor(log: CommitLog, bytesMax: number) {
    this.#log = log;
    this.#bytesMax = bytesMax;
  }

  async entriesOf(stream: number, row: number): Promise<readonly StreamEntry[]> {
    return entriesOf(await this.#record(row), stream);
  }

  async #record(row: number): Promise<Uint8Array> {
    const kept = this.#kept.get(row);
    if (kept !== undefined) {
      this.#kept.delete(row);
      this.#kept.set(row, kept);
      return kept;
    }
    const reading = this.#reading.get(row);
    if (reading !== undefined) return reading;
    const read = this.#log.read(row).finally(() => this.#reading.delete(row));
    this.#reading.set(row, read);
    const record = await read;
    this.#keep(row, record);
    return record;
  }

  #keep(row: number, record: Uint8Array): void {
    if (record.byteLength > this.#bytesMax) return;
    this.#kept.set(row, record);
    this.#bytes += record.byteLength;
    for (const [oldest, { byteLength }] of this.#kept) {
      if (this.#bytes <= this.#bytesMax && this.#kept.size <= ROWS_MAX) return;
      this.#kept.delete(oldest);
      this.#bytes -= byteLength;
    }
  }
}
