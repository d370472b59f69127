/**
 * One group commit as a value, and as the bytes of `holdfast/storage/v1/commit.proto`.
 *
 * The messages on the hot path (a record, its entries, their batches) are written by hand: measured
 * three to four times faster than the generated code for a thousand entries. What is rare (a restated
 * state, a tombstone) goes through the generated messages, in `stream-meta.ts`.
 *
 * Bodies that come out of a record are views into it; a caller that keeps one longer copies it.
 */
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import {
  lengthDelimited,
  readBatch,
  refuseField,
  varint,
  writeChunkBatch,
  writeEventBatch,
} from "./batch-codec.ts";
import type { MovedLogs } from "./moved-logs.ts";
import { decodeMovedLogs, encodeMovedLogs } from "./moved-logs.ts";
import type { NumberRange } from "./number-ranges.ts";
import type { StreamMeta, Tombstone } from "./stream-meta.ts";
import {
  decodeForgotten,
  decodeMeta,
  decodeTombstone,
  encodeForgotten,
  encodeMeta,
  encodeTombstone,
} from "./stream-meta.ts";
import type { Batch, ChunkBatch, NewBatches } from "./stream-store.ts";

export const FORMAT_VERSION = 1;

/** The first row of every log. */
interface FormatRecord {
  readonly formatVersion: number;
}

/** What one operation did to one stream. With neither `meta` nor `tombstone` it only lengthens the logs. */
export interface StreamEntry extends NewBatches {
  readonly stream: number;
  readonly meta: StreamMeta | undefined;
  readonly tombstone: Tombstone | undefined;
  /** Batches of earlier entries that now lie in the body of this row. */
  readonly moved: MovedLogs | undefined;
}

export interface GroupRecord {
  readonly timeMs: number;
  readonly entries: readonly StreamEntry[];
  /** All forgotten stream numbers, when some were added. */
  readonly forgotten: readonly NumberRange[] | undefined;
}

const RECORD = { formatVersion: 1, timeMs: 2, entries: 3, forgotten: 4 } as const;
const ENTRY = { stream: 1, chunks: 2, events: 3, meta: 4, tombstone: 5, moved: 6 } as const;

const UINT32_MAX = 0xffff_ffff;

export function encodeFormat(record: FormatRecord): Uint8Array {
  return new BinaryWriter().uint32(varint(RECORD.formatVersion)).uint32(record.formatVersion).finish();
}

/** The format version when this is a first row, else undefined. */
export function decodeFormat(record: Uint8Array): FormatRecord | undefined {
  const reader = new BinaryReader(record);
  if (reader.len === 0 || reader.uint32() !== varint(RECORD.formatVersion)) return undefined;
  return { formatVersion: reader.uint32() };
}

/** Encodes one record after the other into the same buffer, which grows to the largest. */
export class RecordEncoder {
  readonly #writer = new BinaryWriter();

  encode(record: GroupRecord): Uint8Array {
    const writer = this.#writer;
    writer.uint32(varint(RECORD.timeMs));
    writeNumber(writer, record.timeMs);
    for (const entry of record.entries) {
      writer.uint32(lengthDelimited(RECORD.entries)).fork();
      writeEntry(writer, entry);
      writer.join();
    }
    if (record.forgotten !== undefined) {
      writer.uint32(lengthDelimited(RECORD.forgotten)).bytes(encodeForgotten(record.forgotten));
    }
    return writer.finish();
  }
}

function writeEntry(writer: BinaryWriter, entry: StreamEntry): void {
  writer.uint32(varint(ENTRY.stream));
  writeNumber(writer, entry.stream);
  if (entry.chunks !== undefined) {
    writer.uint32(lengthDelimited(ENTRY.chunks)).fork();
    writeChunkBatch(writer, entry.chunks);
    writer.join();
  }
  if (entry.events !== undefined) {
    writer.uint32(lengthDelimited(ENTRY.events)).fork();
    writeEventBatch(writer, entry.events);
    writer.join();
  }
  if (entry.meta !== undefined) writer.uint32(lengthDelimited(ENTRY.meta)).bytes(encodeMeta(entry.meta));
  if (entry.tombstone !== undefined) {
    writer.uint32(lengthDelimited(ENTRY.tombstone)).bytes(encodeTombstone(entry.tombstone));
  }
  if (entry.moved !== undefined) {
    writer.uint32(lengthDelimited(ENTRY.moved)).bytes(encodeMovedLogs(entry.moved));
  }
}

/** A uint64 whose common case does not go through bigint. */
function writeNumber(writer: BinaryWriter, value: number): void {
  if (value <= UINT32_MAX) writer.uint32(value);
  else writer.uint64(value);
}

export function decodeRecord(record: Uint8Array): GroupRecord {
  let timeMs = 0;
  const entries: StreamEntry[] = [];
  let forgotten: readonly NumberRange[] | undefined;
  const reader = new BinaryReader(record);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    switch (tag) {
      case varint(RECORD.timeMs):
        timeMs = readNumber(reader);
        break;
      case lengthDelimited(RECORD.entries): {
        const end = reader.uint32() + reader.pos;
        entries.push(readEntry(reader, end));
        break;
      }
      case lengthDelimited(RECORD.forgotten):
        forgotten = decodeForgotten(reader.bytes());
        break;
      default:
        refuseField(tag);
    }
  }
  if (reader.pos !== reader.len) throw new RangeError("the record is cut off");
  if (entries.length === 0 && forgotten === undefined) throw new RangeError("the record says nothing");
  return { timeMs, entries, forgotten };
}

/** The entries of one stream in a record; the others are stepped over without being decoded. */
export function entriesOf(record: Uint8Array, stream: number): readonly StreamEntry[] {
  const found: StreamEntry[] = [];
  const reader = new BinaryReader(record);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag !== lengthDelimited(RECORD.entries)) {
      reader.skip(tag & 7);
      continue;
    }
    const end = reader.uint32() + reader.pos;
    const start = reader.pos;
    // The stream's number comes first in every entry: fields are written in order.
    if (reader.uint32() === varint(ENTRY.stream) && readNumber(reader) === stream) {
      reader.pos = start;
      found.push(readEntry(reader, end));
    }
    reader.pos = end;
  }
  if (reader.pos !== reader.len) throw new RangeError("the record is cut off");
  return found;
}

function readEntry(reader: BinaryReader, end: number): StreamEntry {
  let stream = 0;
  let chunks: ChunkBatch | undefined;
  let events: Batch | undefined;
  let meta: StreamMeta | undefined;
  let tombstone: Tombstone | undefined;
  let moved: MovedLogs | undefined;
  while (reader.pos < end) {
    const tag = reader.uint32();
    switch (tag) {
      case varint(ENTRY.stream):
        stream = readNumber(reader);
        break;
      case lengthDelimited(ENTRY.chunks):
        chunks = readBatch(reader);
        break;
      case lengthDelimited(ENTRY.events): {
        const { first, count, sealed } = readBatch(reader);
        events = { first, count, sealed };
        break;
      }
      case lengthDelimited(ENTRY.meta):
        meta = decodeMeta(reader.bytes());
        break;
      case lengthDelimited(ENTRY.tombstone):
        tombstone = decodeTombstone(reader.bytes());
        break;
      case lengthDelimited(ENTRY.moved):
        moved = decodeMovedLogs(reader.bytes());
        break;
      default:
        refuseField(tag);
    }
  }
  if (reader.pos !== end) throw new RangeError("an entry runs over its end");
  return { stream, chunks, events, meta, tombstone, moved };
}

function readNumber(reader: BinaryReader): number {
  return Number(reader.uint64());
}
