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
  /** Records by their row, bodies by its negative, in the order of their last use. */
  readonly #kept = new Map<number, Uint8Array>();
  readonly #reading = new Map<number, Promise<Uint8Array>>();
  #bytes = 0;

  constructor(log: CommitLog, bytesMax: number) {
    this.#log = log;
    this.#bytesMax = bytesMax;
  }

  async entriesOf(stream: number, row: number): Promise<readonly StreamEntry[]> {
    return entriesOf(await this.#read(row, () => this.#log.read(row)), stream);
  }

  /** Whoever asks for the row soon joins this read; a failure is theirs to meet. */
  prefetch(row: number): void {
    if (!this.#kept.has(row)) this.#read(row, () => this.#log.read(row)).catch(() => undefined);
  }

  bodyOf(row: number): Promise<Uint8Array> {
    return this.#read(-row, () => this.#log.readBody(row));
  }

  async #read(key: number, readNow: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const kept = this.#kept.get(key);
    if (kept !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return kept;
    }
    const reading = this.#reading.get(key);
    if (reading !== undefined) return reading;
    const read = readNow()
      .then((bytes) => this.#keep(key, bytes))
      .finally(() => this.#reading.delete(key));
    this.#reading.set(key, read);
    return read;
  }

  /** Called while the row still counts as being read: between the two somebody else would read it, and it would count twice. */
  #keep(key: number, bytes: Uint8Array): Uint8Array {
    if (bytes.byteLength > this.#bytesMax) return bytes;
    this.#kept.set(key, bytes);
    this.#bytes += bytes.byteLength;
    for (const [oldest, { byteLength }] of this.#kept) {
      if (this.#bytes <= this.#bytesMax && this.#kept.size <= ROWS_MAX) break;
      this.#kept.delete(oldest);
      this.#bytes -= byteLength;
    }
    return bytes;
  }
}
