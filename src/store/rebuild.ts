/**
 * Opening a commit log: check its format, then replay every row into an index.
 *
 * It fails closed. A newer format is refused before anything is written; a row that cannot be
 * decoded, or a stream whose batches are not all there, refuses the whole log, because a gap would
 * be taken for the end and tools would run again. Rows that no stream needs any more, whose dropping a
 * crash took back, are dropped again.
 */
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import type { CommitLog } from "./commit-log.ts";
import { FORMAT_VERSION, decodeFormat, decodeRecord, encodeFormat } from "./commit-record.ts";
import type { EventTail } from "./event-tail.ts";
import { StreamIndex } from "./stream-index.ts";

/** Clients of a server that was killed return, and ask for the youngest events: they are kept on the way. */
interface Youngest {
  readonly tail: EventTail;
  /** Of records, about. */
  readonly bytes: number;
}

export async function rebuildIndex(log: CommitLog, kept?: Youngest): Promise<StreamIndex> {
  const index = new StreamIndex();
  const rows: number[] = [];
  const youngest = new LastRecords(kept?.bytes ?? 0);
  for await (const { row, record } of log.scan()) {
    if (rows.length === 0) {
      checkFormat(row, record);
      // Kept for ever.
      index.pins.pin(row);
    } else {
      decode(row, () => index.apply(row, decodeRecord(record)));
      youngest.push(record);
    }
    rows.push(row);
  }
  for (const record of youngest.records) kept?.tail.follow(decodeRecord(record));
  kept?.tail.copyAll();
  const damage = index.findDamage();
  if (damage !== undefined) {
    throw new HoldfastError("stream_failed", `the commit log is damaged: ${damage}`);
  }
  index.pins.takeFreed();
  const unneeded = rows.filter((row) => !index.pins.isPinned(row));
  try {
    if (rows.length === 0) index.pins.pin(await log.append(encodeFormat({ formatVersion: FORMAT_VERSION })));
    if (unneeded.length > 0) await log.drop(unneeded);
  } catch (error) {
    throw new HoldfastError("unavailable", "the commit log cannot be written", { cause: error });
  }
  return index;
}

/** What a record costs besides its bytes. */
const RECORD_BYTES = 128;

/** The records that were read last: the start of a long log is not held up by the others. */
class LastRecords {
  records: Uint8Array[] = [];
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  push(record: Uint8Array): void {
    this.records.push(record);
    this.#bytes += RECORD_BYTES + record.byteLength;
    // Seldom, so that each is moved once or twice.
    if (this.#bytes > 2 * this.#bytesMax) this.#trim();
  }

  #trim(): void {
    let gone = 0;
    for (const { byteLength } of this.records) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#bytes -= RECORD_BYTES + byteLength;
      gone++;
    }
    this.records = this.records.slice(gone);
  }
}

function checkFormat(row: number, record: Uint8Array): void {
  const format = decode(row, () => decodeFormat(record));
  if (format === undefined) {
    throw new HoldfastError(
      "stream_failed",
      `the commit log is damaged: row ${row} does not name its format`,
    );
  }
  if (format.formatVersion > FORMAT_VERSION) {
    throw new HoldfastError(
      "unsupported_version",
      `the commit log has format ${format.formatVersion}, written by a newer Holdfast; this one knows formats up to ${FORMAT_VERSION}`,
    );
  }
}

function decode<T>(row: number, decoding: () => T): T {
  try {
    return decoding();
  } catch (error) {
    throw new HoldfastError("stream_failed", `the commit log is damaged: row ${row}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
