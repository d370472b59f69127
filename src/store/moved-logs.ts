/**
 * Batches of a stream that were written a second time, together: where they lie, and the bytes.
 *
 * The record of the row says which part of the logs was moved and where in the row's body it is; only a
 * reader of the stream needs the body.
 */
import { encoded, fromBinary } from "../protocol/message.ts";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { MovedLogsSchema } from "../protocol/gen/holdfast/storage/v1/commit.ts";
import { lengthDelimited, readBatch, refuseField, writeChunkBatch, writeEventBatch } from "./batch-codec.ts";
import type { Batch, ChunkBatch, LogBatches, LogName } from "./stream-store.ts";

/** Neighbouring numbers of one log; empty when `count` is 0. */
interface LogRange {
  readonly first: number;
  readonly count: number;
}

export interface MovedLogs extends Readonly<Record<LogName, LogRange>> {
  readonly bodyOffset: number;
  readonly bodyLength: number;
}

/** What is moved of one stream: neighbouring batches of each log, in order. */
export type MovedBatches = { readonly [L in LogName]: readonly LogBatches[L][] };

const BATCHES = { chunks: 1, events: 2 } as const;

export function rangeOf(batches: readonly Batch[]): LogRange {
  const first = batches[0]?.first ?? 0;
  return { first, count: batches.reduce((sum, batch) => sum + batch.count, 0) };
}

export function encodeMovedLogs({ chunks, events, bodyOffset, bodyLength }: MovedLogs): Uint8Array {
  return encoded(MovedLogsSchema, {
    chunksFirst: chunks.first,
    chunksCount: chunks.count,
    eventsFirst: events.first,
    eventsCount: events.count,
    bodyOffset: BigInt(bodyOffset),
    bodyLength: BigInt(bodyLength),
  });
}

export function decodeMovedLogs(bytes: Uint8Array): MovedLogs {
  const moved = fromBinary(MovedLogsSchema, bytes);
  return {
    chunks: { first: moved.chunksFirst, count: moved.chunksCount },
    events: { first: moved.eventsFirst, count: moved.eventsCount },
    bodyOffset: Number(moved.bodyOffset),
    bodyLength: Number(moved.bodyLength),
  };
}

export function encodeMovedBatches({ chunks, events }: MovedBatches): Uint8Array {
  const writer = new BinaryWriter();
  for (const batch of chunks) {
    writer.uint32(lengthDelimited(BATCHES.chunks)).fork();
    writeChunkBatch(writer, batch);
    writer.join();
  }
  for (const batch of events) {
    writer.uint32(lengthDelimited(BATCHES.events)).fork();
    writeEventBatch(writer, batch);
    writer.join();
  }
  return writer.finish();
}

/** The batches are views into the bytes. */
export function decodeMovedBatches(bytes: Uint8Array): MovedBatches {
  const chunks: ChunkBatch[] = [];
  const events: Batch[] = [];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === lengthDelimited(BATCHES.chunks)) {
      chunks.push(readBatch(reader));
    } else if (tag === lengthDelimited(BATCHES.events)) {
      const { first, count, sealed } = readBatch(reader);
      events.push({ first, count, sealed });
    } else {
      refuseField(tag);
    }
  }
  if (reader.pos !== reader.len) throw new RangeError("the moved batches are cut off");
  return { chunks, events };
}
