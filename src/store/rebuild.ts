/**
 * Opening a commit log: check its format, then replay every row into an index.
 *
 * It fails closed. A newer format is refused before anything is written; a row that cannot be
 * decoded, or a stream whose batches are not all there, refuses the whole log, because a gap would
 * be taken for the end and tools would run again. Rows that nobody needs any more, whose dropping a
 * crash took back, are dropped again.
 */
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import type { CommitLog } from "./commit-log.ts";
import { FORMAT_VERSION, decodeFormat, decodeRecord, encodeFormat } from "./commit-record.ts";
import { StreamIndex } from "./stream-index.ts";

export async function rebuildIndex(log: CommitLog): Promise<StreamIndex> {
  const index = new StreamIndex();
  const rows: number[] = [];
  for await (const { row, record } of log.scan()) {
    if (rows.length === 0) {
      checkFormat(row, record);
      // Kept for ever.
      index.pins.pin(row);
    } else {
      decode(row, () => index.apply(row, decodeRecord(record)));
    }
    rows.push(row);
  }
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
