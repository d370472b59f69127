/**
 * One group commit as a value, and as the bytes of `holdfast/storage/v1/commit.proto`.
 *
 * The messages on the hot path (a record, its entries, their batches) are written by hand: measured
 * three to four times faster than the generated code for a thousand entries. What is rare (a restated
 * state, a tombstone) goes through the generated messages, in `stream-meta.ts`.
 *
 * Bodies that come out of a record are views into it; whoever keeps one longer copies it.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
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
import type { Batch, ChunkBatch } from "./stream-store.ts";

export const FORMAT_VERSION = 1;

/** The first row of every log. */
export interface FormatRecord {
  readonly formatVersion: number;
}

/** What one operation did to one stream. With neither `meta` nor `tombstone` it only lengthens the logs. */
export interface StreamEntry {
  readonly stream: number;
  readonly chunks: ChunkBatch | undefined;
  readonly events: Batch | undefined;
  readonly meta: StreamMeta | undefined;
  readonly tombstone: Tombstone | undefined;
}

export interface GroupRecord {
  readonly timeMs: number;
  readonly entries: readonly StreamEntry[];
  /** All forgotten stream numbers, when some were added. */
  readonly forgotten: readonly NumberRange[] | undefined;
}

const RECORD = { formatVersion: 1, timeMs: 2, entries: 3, forgotten: 4 } as const;
const ENTRY = { stream: 1, chunks: 2, events: 3, meta: 4, tombstone: 5 } as const;
const BATCH = { first: 1, count: 2, sealed: 3, macs: 4 } as const;

const varint = (field: number): number => (field << 3) | WireType.Varint;
const bytes = (field: number): number => (field << 3) | WireType.LengthDelimited;
const NO_BYTES = new Uint8Array(0);
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
      writer.uint32(bytes(RECORD.entries)).fork();
      writeEntry(writer, entry);
      writer.join();
    }
    if (record.forgotten !== undefined) {
      writer.uint32(bytes(RECORD.forgotten)).bytes(encodeForgotten(record.forgotten));
    }
    return writer.finish();
  }
}

function writeEntry(writer: BinaryWriter, entry: StreamEntry): void {
  writer.uint32(varint(ENTRY.stream));
  writeNumber(writer, entry.stream);
  if (entry.chunks !== undefined) {
    writer.uint32(bytes(ENTRY.chunks)).fork();
    writeBatch(writer, entry.chunks);
    for (const mac of entry.chunks.macs) writer.uint32(bytes(BATCH.macs)).bytes(mac);
    writer.join();
  }
  if (entry.events !== undefined) {
    writer.uint32(bytes(ENTRY.events)).fork();
    writeBatch(writer, entry.events);
    writer.join();
  }
  if (entry.meta !== undefined) writer.uint32(bytes(ENTRY.meta)).bytes(encodeMeta(entry.meta));
  if (entry.tombstone !== undefined) {
    writer.uint32(bytes(ENTRY.tombstone)).bytes(encodeTombstone(entry.tombstone));
  }
}

/** Zeros and empty bytes are left out, as proto3 does: the same record is always the same bytes. */
function writeBatch(writer: BinaryWriter, { first, count, sealed }: Batch): void {
  if (first !== 0) writer.uint32(varint(BATCH.first)).uint32(first);
  writer.uint32(varint(BATCH.count)).uint32(count);
  if (sealed.byteLength > 0) writer.uint32(bytes(BATCH.sealed)).bytes(sealed);
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
        timeMs = Number(reader.uint64());
        break;
      case bytes(RECORD.entries): {
        const end = reader.uint32() + reader.pos;
        entries.push(readEntry(reader, end));
        break;
      }
      case bytes(RECORD.forgotten):
        forgotten = decodeForgotten(reader.bytes());
        break;
      default:
        refuse(tag);
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
    if (tag !== bytes(RECORD.entries)) {
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
  while (reader.pos < end) {
    const tag = reader.uint32();
    switch (tag) {
      case varint(ENTRY.stream):
        stream = readNumber(reader);
        break;
      case bytes(ENTRY.chunks):
        chunks = readBatch(reader);
        break;
      case bytes(ENTRY.events): {
        const { first, count, sealed } = readBatch(reader);
        events = { first, count, sealed };
        break;
      }
      case bytes(ENTRY.meta):
        meta = decodeMeta(reader.bytes());
        break;
      case bytes(ENTRY.tombstone):
        tombstone = decodeTombstone(reader.bytes());
        break;
      default:
        refuse(tag);
    }
  }
  if (reader.pos !== end) throw new RangeError("an entry runs over its end");
  return { stream, chunks, events, meta, tombstone };
}

function readBatch(reader: BinaryReader): ChunkBatch {
  const end = reader.uint32() + reader.pos;
  let first = 0;
  let count = 0;
  let sealed: Uint8Array = NO_BYTES;
  const macs: Uint8Array[] = [];
  while (reader.pos < end) {
    const tag = reader.uint32();
    switch (tag) {
      case varint(BATCH.first):
        first = reader.uint32();
        break;
      case varint(BATCH.count):
        count = reader.uint32();
        break;
      case bytes(BATCH.sealed):
        sealed = reader.bytes();
        break;
      case bytes(BATCH.macs):
        macs.push(reader.bytes());
        break;
      default:
        refuse(tag);
    }
  }
  if (reader.pos !== end) throw new RangeError("a batch runs over its end");
  return { first, count, sealed, macs };
}

function readNumber(reader: BinaryReader): number {
  return Number(reader.uint64());
}

/** A field that this format does not have would be lost when a state is restated: the record is not ours. */
function refuse(tag: number): never {
  throw new RangeError(`unknown field ${tag >>> 3} of wire type ${tag & 7}`);
}
