/**
 * Batches of one stream, read from the rows that the index names: its slot is looked up again after each wait.
 *
 * While a row is being read its stream may go away, or be moved into another row and the old one
 * dropped. The first ends the reading, the second makes it look again; neither is damage.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { StreamEntry } from "./commit-record.ts";
import type { CommitLog } from "./commit-log.ts";
import { decodeMovedBatches } from "./moved-logs.ts";
import { rowReader } from "./row-reader.ts";
import type { Segment, SegmentList } from "./segment-list.ts";
import type { Slot } from "./stream-index.ts";
import type { Batch, LogBatches, LogName, NewBatches } from "./stream-store.ts";

const ROWS_AHEAD_MAX = 8;
/** A reader that has taken so many rows is far behind: those that it needs next are asked for together. */
const FAR_BEHIND = 16;
const ROWS_TOGETHER = 64;

/** The slot of the stream that is read, as the index has it now; undefined when the stream is gone. */
type FindSlot = () => Slot | undefined;

export function batchReader(commitLog: CommitLog, keptBytesMax: number) {
  const rows = rowReader(commitLog, keptBytesMax);

  /** Begins to read the next rows, so that the log works while we decode. */
  function readAhead(list: SegmentList | undefined, number: number, count: number): void {
    for (const { row } of list?.from(number).take(count) ?? []) rows.prefetch(row);
  }

  /** The batches of the segment that holds `number`; none when there is no such segment. */
  async function at<L extends LogName>(
    find: FindSlot,
    log: L,
    number: number,
  ): Promise<readonly LogBatches[L][]> {
    for (;;) {
      const slot = find();
      const segment = slot?.[log].find(number);
      if (slot === undefined || segment === undefined) return [];
      const { row } = segment;
      const isStillThere = (): boolean => find()?.[log].find(number)?.row === row;
      try {
        const batches = await inRow(slot.number, segment, log);
        if (batches.length > 0) return batches;
      } catch (error) {
        if (!isStillThere()) continue;
        if (error instanceof RangeError) throw damaged(row, error);
        throw HoldfastError.from(error, "unavailable", `row ${row} could not be read`);
      }
      if (isStillThere()) throw damaged(row, undefined);
    }
  }

  async function inRow<L extends LogName>(
    stream: number,
    { row, first, count }: Segment,
    log: L,
  ): Promise<readonly LogBatches[L][]> {
    for (const entry of await rows.entriesOf(stream, row)) {
      const body = entry.moved === undefined ? undefined : await rows.bodyOf(row);
      const batches = batchesIn(entry, log, body);
      const inside = batches.filter((batch) => batch.first >= first && batch.first < first + count);
      if (inside.length > 0) return inside;
    }
    return [];
  }

  return {
    /** From the batch that holds `from` on, up to about `bytesMax`, at least one when there is any. */
    async read<L extends LogName>(
      find: FindSlot,
      log: L,
      from: number,
      bytesMax: number,
    ): Promise<readonly LogBatches[L][]> {
      const found: LogBatches[L][] = [];
      let bytes = 0;
      let [rowsRead, rowsAsked] = [0, 0];
      for (let next = from; ; rowsRead++) {
        // A reader that has taken little so far may not want much more.
        if (rowsRead < FAR_BEHIND) readAhead(find()?.[log], next, Math.min(found.length, ROWS_AHEAD_MAX));
        else if (rowsAsked - rowsRead < ROWS_TOGETHER / 2) {
          readAhead(find()?.[log], next, ROWS_TOGETHER);
          rowsAsked = rowsRead + ROWS_TOGETHER;
        }
        const batches = await at(find, log, next);
        if (batches.length === 0) return found;
        for (const batch of batches) {
          if (batch.first + batch.count <= next) continue;
          bytes += batch.sealed.byteLength;
          if (found.length > 0 && bytes > bytesMax) return found;
          found.push(ownCopy(batch));
          if (bytes >= bytesMax) return found;
          next = batch.first + batch.count;
        }
      }
    },
  };
}

/** `body` is that of the row, where batches were moved into it. */
function batchesIn<L extends LogName>(
  entry: StreamEntry,
  log: L,
  body: Uint8Array | undefined,
): readonly LogBatches[L][] {
  const { moved } = entry;
  const own: NewBatches = entry;
  if (moved !== undefined && body !== undefined) {
    return decodeMovedBatches(body.subarray(moved.bodyOffset, moved.bodyOffset + moved.bodyLength))[log];
  }
  const batch = own[log];
  return batch === undefined ? [] : [batch];
}

function damaged(row: number, cause: unknown): HoldfastError {
  return new HoldfastError("stream_failed", `row ${row} of the commit log is damaged`, { cause });
}

/** A batch read from a row is a view into it, and would keep the whole row in memory. */
export function ownCopy<B extends Batch>(batch: B): B {
  const copy = { ...batch, sealed: batch.sealed.slice() };
  return "macs" in copy && Array.isArray(copy.macs)
    ? { ...copy, macs: copy.macs.map((mac: Uint8Array) => mac.slice()) }
    : copy;
}
