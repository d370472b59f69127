/**
 * One batch of a log as bytes: the innermost message of the storage format, written by hand because it is hot.
 */
import type { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { WireType } from "@bufbuild/protobuf/wire";
import type { Batch, ChunkBatch } from "./stream-store.ts";

const BATCH = { first: 1, count: 2, sealed: 3, macs: 4 } as const;
const NO_BYTES = new Uint8Array(0);

export const varint = (field: number): number => (field << 3) | WireType.Varint;
export const lengthDelimited = (field: number): number => (field << 3) | WireType.LengthDelimited;

/** Zeros and empty bytes are left out, as proto3 does: the same record is always the same bytes. */
export function writeEventBatch(writer: BinaryWriter, { first, count, sealed }: Batch): void {
  if (first !== 0) writer.uint32(varint(BATCH.first)).uint32(first);
  writer.uint32(varint(BATCH.count)).uint32(count);
  if (sealed.byteLength > 0) writer.uint32(lengthDelimited(BATCH.sealed)).bytes(sealed);
}

export function writeChunkBatch(writer: BinaryWriter, batch: ChunkBatch): void {
  writeEventBatch(writer, batch);
  for (const mac of batch.macs) writer.uint32(lengthDelimited(BATCH.macs)).bytes(mac);
}

export function readBatch(reader: BinaryReader): ChunkBatch {
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
      case lengthDelimited(BATCH.sealed):
        sealed = reader.bytes();
        break;
      case lengthDelimited(BATCH.macs):
        macs.push(reader.bytes());
        break;
      default:
        refuseField(tag);
    }
  }
  if (reader.pos !== end) throw new RangeError("a batch runs over its end");
  return { first, count, sealed, macs };
}

/** A field that this format does not have would be lost when a state is restated: the record is not ours. */
export function refuseField(tag: number): never {
  throw new RangeError(`unknown field ${tag >>> 3} of wire type ${tag & 7}`);
}
