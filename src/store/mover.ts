/**
 * Which streams are to be moved out of the rows they were written to, and their batches.
 *
 * A row holds entries of every stream that was busy at the time. A stream that has ended is read as a
 * whole or not at all, so its batches belong together, and a start should not have to read them. A stream
 * that lives long keeps rows that hold mostly what others have left behind. Both are written once more, in
 * rows of their own; after that the old rows lose a pin.
 *
 * The rows are read once, in order, for all streams together: neighbours in time share their rows. So what has
 * been collected of a stream at any moment is the next part of its logs, and may be moved as it is.
 */
import type { CommitLog } from "./commit-log.ts";
import { decodeRecord } from "./commit-record.ts";
import { ownCopy } from "./batch-reader.ts";
import type { Move } from "./group.ts";
import type { Segment } from "./segment-list.ts";
import type { Slot, StreamIndex } from "./stream-index.ts";
import type { Batch, LogBatches, LogName } from "./stream-store.ts";
import { LOGS } from "./stream-store.ts";

/** Rows of other streams are small beside it; a commit that waits for such a record waits a millisecond. */
const RECORD_BYTES_MAX = 256 * 1024;
/** What is held in memory between reading and writing. */
const ROUND_BYTES_MAX = 16 * 1024 * 1024;
const ROUND_STREAMS_MAX = 4_096;

/** A stream that is to be moved, as far as it lies in rows up to `lastRow`. */
interface Candidate {
  readonly slot: Slot;
  readonly lastRow: number;
}

interface Cursor extends Candidate {
  readonly collected: { readonly [L in LogName]: LogBatches[L][] };
  readonly next: Record<LogName, number | undefined>;
}

/** What becomes one record. */
type MoveGroup = readonly Move[];

/** Ended streams without activity since `quietSinceMs`, and others that keep old rows for little. */
export function candidatesToMove(index: StreamIndex, quietSinceMs: number): readonly Candidate[] {
  const oldRow = index.ages.lastBefore(quietSinceMs);
  const found: Candidate[] = [];
  for (const slot of index.slots()) {
    if (slot.view.kind !== "live" || slot.name === undefined) continue;
    const { end, activityMs } = slot.view.state;
    const isQuiet = end !== undefined && activityMs < quietSinceMs;
    const rows = LOGS.flatMap((log) => firstToMove(slot, log)?.row ?? []);
    const keepsOldRow = [...rows, slot.viewRow].some(
      (row) => row !== undefined && row <= oldRow && index.pins.isSparse(row),
    );
    if (isQuiet && rows.length > 0) found.push({ slot, lastRow: Infinity });
    else if (keepsOldRow) found.push({ slot, lastRow: oldRow });
    if (found.length >= ROUND_STREAMS_MAX) break;
  }
  return found;
}

/** Rises when something of them is moved. */
export function movedEntries(candidates: readonly Candidate[]): number {
  return candidates.reduce((sum, { slot: { moved } }) => sum + moved.chunks + moved.events, 0);
}

/** Reads what lies in the old rows, up to a bound of memory. */
export async function collectMoves(
  log: CommitLog,
  candidates: readonly Candidate[],
): Promise<readonly MoveGroup[]> {
  const cursors = new Map(candidates.map((candidate) => [candidate.slot.number, cursorOf(candidate)]));
  let bytes = 0;
  let isCut = false;
  for (const row of rowsOf(cursors.values())) {
    isCut = bytes >= ROUND_BYTES_MAX;
    if (isCut) break;
    const record = await readIfThere(log, row);
    if (record === undefined) continue;
    for (const entry of decodeRecord(record).entries) {
      const cursor = cursors.get(entry.stream);
      if (cursor === undefined || row > cursor.lastRow) continue;
      for (const name of LOGS) bytes += collect(cursor, name, entry[name]);
    }
  }
  // A stream that was not reached has its turn in the next round; to restate it now would be for nothing.
  const hasTurn = ({ collected: { chunks, events } }: Cursor): boolean =>
    !isCut || chunks.length + events.length > 0;
  return groupsOf([...cursors.values()].filter(hasTurn));
}

/** Takes a batch if it is the next one; returns its bytes. */
function collect<L extends LogName>(
  { collected, next }: Cursor,
  log: L,
  batch: LogBatches[L] | undefined,
): number {
  if (batch === undefined || batch.first !== next[log]) return 0;
  collected[log].push(ownCopy(batch));
  next[log] = batch.first + batch.count;
  return batch.sealed.byteLength;
}

function firstToMove(slot: Slot, log: LogName): Segment | undefined {
  const floor = log === "events" && slot.view.kind === "live" ? slot.view.state.eventFloor : 0;
  return slot[log].find(Math.max(slot.moved[log], floor));
}

function cursorOf({ slot, lastRow }: Candidate): Cursor {
  const next = { chunks: firstToMove(slot, "chunks")?.first, events: firstToMove(slot, "events")?.first };
  return { slot, lastRow, collected: { chunks: [], events: [] }, next };
}

function rowsOf(cursors: Iterable<Cursor>): readonly number[] {
  const rows = new Set<number>();
  for (const { slot, lastRow, next } of cursors) {
    for (const log of LOGS) {
      for (const { row } of slot[log].from(next[log] ?? Infinity)) {
        if (row > lastRow) break;
        rows.add(row);
      }
    }
  }
  return [...rows].toSorted((a, b) => a - b);
}

/** A stream that went away meanwhile took its rows along; what was collected before is still right. */
async function readIfThere(log: CommitLog, row: number): Promise<Uint8Array | undefined> {
  try {
    return await log.read(row);
  } catch {
    return undefined;
  }
}

/** Streams that have ended will go at about the same time and may share a row; one that lives has its own. */
function groupsOf(cursors: readonly Cursor[]): readonly MoveGroup[] {
  const groups: Move[][] = [];
  let shared: Move[] = [];
  let sharedBytes = 0;
  for (const cursor of cursors) {
    const isLive = cursor.slot.view.kind === "live" && cursor.slot.view.state.end === undefined;
    for (const move of movesOf(cursor)) {
      const bytes = bytesOf(move);
      if (isLive || bytes >= RECORD_BYTES_MAX) {
        groups.push([move]);
        continue;
      }
      if (sharedBytes + bytes > RECORD_BYTES_MAX) {
        groups.push(shared);
        shared = [];
        sharedBytes = 0;
      }
      shared.push(move);
      sharedBytes += bytes;
    }
  }
  if (shared.length > 0) groups.push(shared);
  return groups;
}

/** One stream in pieces of a bounded size, a piece of each log together; one without batches is restated only. */
function movesOf({ slot: { name, number }, collected }: Cursor): readonly Move[] {
  if (name === undefined) return [];
  const [chunks, events] = [piecesOf(collected.chunks), piecesOf(collected.events)];
  return Array.from({ length: Math.max(1, chunks.length, events.length) }, (_, at) => ({
    name,
    number,
    batches: { chunks: chunks[at] ?? [], events: events[at] ?? [] },
  }));
}

function piecesOf<B extends Batch>(batches: readonly B[]): readonly (readonly B[])[] {
  const pieces: B[][] = [];
  let bytes = Infinity;
  for (const batch of batches) {
    if (bytes + batch.sealed.byteLength > RECORD_BYTES_MAX) {
      pieces.push([]);
      bytes = 0;
    }
    pieces.at(-1)?.push(batch);
    bytes += batch.sealed.byteLength;
  }
  return pieces;
}

function bytesOf({ batches: { chunks, events } }: Move): number {
  return [...chunks, ...events].reduce((sum, { sealed }) => sum + sealed.byteLength, 0);
}
