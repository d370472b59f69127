/**
 * The streams of a data directory, read from its commit log and nothing else: no key is needed for it, no
 * server, and nothing is written.
 *
 * The index is the server's own, rebuilt by the same calls; only the consequences differ. What a server
 * would refuse to start with is shown here, because a user who looks into a broken directory wants to see.
 */
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { CommitLog } from "../store/commit-log.ts";
import { decodeFormat, decodeRecord, entriesOf, FORMAT_VERSION } from "../store/commit-record.ts";
import { decodeMovedBatches } from "../store/moved-logs.ts";
import { type Slot, StreamIndex } from "../store/stream-index.ts";
import type { Batch } from "../store/stream-store.ts";

export type Rows = Pick<CommitLog, "scan" | "readBody">;

export interface ScannedStream {
  readonly number: number;
  readonly name: StreamName;
  readonly view: Exclude<Slot["view"], { readonly kind: "absent" }>;
  /** Sealed bodies of both logs. */
  readonly bytes: number;
}

export interface Scan {
  readonly streams: readonly ScannedStream[];
  /** Why a server would not start on it. */
  readonly damage: string | undefined;
}

export async function scanStreams(log: Rows): Promise<Scan> {
  const index = new StreamIndex();
  let bytes = new Map<number, number>();
  let hasMoved = false;
  for await (const { row, record } of records(log)) {
    index.apply(row, record);
    for (const entry of record.entries) {
      addTo(bytes, entry.stream, sizeOf(entry.chunks) + sizeOf(entry.events));
      hasMoved ||= entry.moved !== undefined;
    }
  }
  const damage = index.findDamage();
  if (hasMoved) bytes = await countBytes(log, index);
  const streams: ScannedStream[] = [];
  for (const { number, name, view } of index.slots()) {
    if (name === undefined || view.kind === "absent") continue;
    streams.push({ number, name, view, bytes: view.kind === "live" ? (bytes.get(number) ?? 0) : 0 });
  }
  return { streams, damage };
}

/** What was moved may still lie in its old row too, and counts once. */
async function countBytes(log: Rows, index: StreamIndex): Promise<Map<number, number>> {
  const bytes = new Map<number, number>();
  for await (const { row, record } of records(log)) {
    for (const { stream, chunks, events, moved } of record.entries) {
      const slot = index.slotOf(stream);
      const isHere = (list: Slot["chunks"] | undefined, batch: Batch | undefined): boolean =>
        batch !== undefined && list?.find(batch.first)?.row === row;
      if (isHere(slot?.chunks, chunks)) addTo(bytes, stream, sizeOf(chunks));
      if (isHere(slot?.events, events)) addTo(bytes, stream, sizeOf(events));
      addTo(bytes, stream, moved?.bodyLength ?? 0);
    }
  }
  return bytes;
}

function addTo(bytes: Map<number, number>, stream: number, more: number): void {
  if (more > 0) bytes.set(stream, (bytes.get(stream) ?? 0) + more);
}

/** Neighbouring entries of one log, sealed together. */
export interface ScannedBatch {
  readonly batch: Batch;
  /** Where and when it was committed; unknown for a batch that was moved and whose old row is gone. */
  readonly commit: { readonly row: number; readonly timeMs: number } | undefined;
}

export interface ScannedLogs {
  readonly chunks: readonly ScannedBatch[];
  readonly events: readonly ScannedBatch[];
}

/** Both logs of one stream, each in order. */
export async function scanLogs(log: Rows, stream: number): Promise<ScannedLogs> {
  const chunks: ScannedBatch[] = [];
  const events: ScannedBatch[] = [];
  for await (const { row, record } of records(log, stream)) {
    const commit = { row, timeMs: record.timeMs };
    for (const entry of record.entries) {
      if (entry.chunks !== undefined) chunks.push({ batch: entry.chunks, commit });
      if (entry.events !== undefined) events.push({ batch: entry.events, commit });
      if (entry.moved === undefined) continue;
      const { bodyOffset, bodyLength } = entry.moved;
      const body = await log.readBody(row);
      const moved = decoded(row, () =>
        decodeMovedBatches(body.subarray(bodyOffset, bodyOffset + bodyLength)),
      );
      for (const batch of moved.chunks) chunks.push({ batch, commit: undefined });
      for (const batch of moved.events) events.push({ batch, commit: undefined });
    }
  }
  return { chunks: inOrder(chunks), events: inOrder(events) };
}

/** Each number once: the entry of the commit, which knows when, before the one that was moved. */
function inOrder(batches: readonly ScannedBatch[]): readonly ScannedBatch[] {
  const isMoved = ({ commit }: ScannedBatch): number => Number(commit === undefined);
  const sorted = batches.toSorted((a, b) => a.batch.first - b.batch.first || isMoved(a) - isMoved(b));
  let next = 0;
  return sorted.filter(({ batch }) => {
    const isNew = batch.first >= next;
    if (isNew) next = batch.first + batch.count;
    return isNew;
  });
}

type ScannedRecord = { readonly row: number; readonly record: ReturnType<typeof decodeRecord> };

/** All records after the one that names the format; with `stream` only those that say something of it. */
async function* records(log: Rows, stream?: number): AsyncGenerator<ScannedRecord> {
  let isFirst = true;
  for await (const { row, record } of log.scan()) {
    if (isFirst) checkFormat(record);
    else if (stream === undefined) yield { row, record: decoded(row, () => decodeRecord(record)) };
    else {
      const entries = decoded(row, () => entriesOf(record, stream));
      if (entries.length > 0) yield { row, record: { ...decodeRecord(record), entries } };
    }
    isFirst = false;
  }
}

function checkFormat(record: Uint8Array): void {
  const version = decodeFormat(record)?.formatVersion;
  if (version === undefined) throw new HoldfastError("stream_failed", "the commit log has no beginning");
  if (version > FORMAT_VERSION) {
    throw new HoldfastError(
      "unsupported_version",
      `the commit log has format ${version}; this Holdfast reads formats up to ${FORMAT_VERSION}: use a newer one`,
    );
  }
}

function decoded<Value>(row: number, decode: () => Value): Value {
  try {
    return decode();
  } catch (cause) {
    throw new HoldfastError("stream_failed", `row ${row} of the commit log is damaged`, { cause });
  }
}

function sizeOf(batch: Batch | undefined): number {
  return batch?.sealed.byteLength ?? 0;
}
