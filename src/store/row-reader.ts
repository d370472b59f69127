/**
 * Rows read from the commit log, the last few kept.
 *
 * A row holds batches of many streams, and after a restart many clients return at once and want the
 * same rows; a caller that asks for a row that is being read joins that read.
 */
import { entriesOf } from "./commit-record.ts";
import type { StreamEntry } from "./commit-record.ts";
import type { CommitLog } from "./commit-log.ts";

/** Small rows are cheap to read again; many of them would only make the keeping dear. */
const ROWS_MAX = 256;

export function rowReader(log: CommitLog, bytesMax: number) {
  /** Records by their row, bodies by its negative, in the order of their last use. */
  const kept = new Map<number, Uint8Array>();
  const reading = new Map<number, Promise<Uint8Array>>();
  let keptBytes = 0;

  async function read(key: number, readNow: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const found = kept.get(key);
    if (found !== undefined) {
      kept.delete(key);
      kept.set(key, found);
      return found;
    }
    const underWay = reading.get(key);
    if (underWay !== undefined) return underWay;
    const read = readNow()
      .then((bytes) => keep(key, bytes))
      .finally(() => reading.delete(key));
    reading.set(key, read);
    return read;
  }

  /** Called while the row still counts as being read: between the two another call would read it, and it would count twice. */
  function keep(key: number, bytes: Uint8Array): Uint8Array {
    if (bytes.byteLength > bytesMax) return bytes;
    kept.set(key, bytes);
    keptBytes += bytes.byteLength;
    for (const [oldest, { byteLength }] of kept) {
      if (keptBytes <= bytesMax && kept.size <= ROWS_MAX) break;
      kept.delete(oldest);
      keptBytes -= byteLength;
    }
    return bytes;
  }

  return {
    async entriesOf(stream: number, row: number): Promise<readonly StreamEntry[]> {
      return entriesOf(await read(row, () => log.read(row)), stream);
    },
    /** A caller that asks for the row soon joins this read, and meets its failure. */
    prefetch(row: number): void {
      if (!kept.has(row)) read(row, () => log.read(row)).catch(() => undefined);
    },
    bodyOf: (row: number) => read(-row, () => log.readBody(row)),
  };
}
