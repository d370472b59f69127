/**
 * A stream that is over, as one short text: what the index keeps of the many that no client asks for any more.
 *
 * A slot is a dozen objects and three buffers, two kilobytes of live memory. A server that gives a hundred answers a second would
 * need gigabytes for the hours in which each can be read again. A text of one byte per character holds the same in a tenth of that,
 * because a small string costs far less beside its bytes than a small buffer.
 *
 * Invariant: unpacking gives the slot that was packed.
 */
import type { StreamName } from "../core/stream-state.ts";
import { SegmentList } from "./segment-list.ts";
import type { Slot } from "./stream-index.ts";
import { decodeMeta, encodeMeta } from "./stream-meta.ts";

/** Numbers of six bytes each stand before the rest. */
const [ACTIVITY, ROW, NUMBER, EVENTS_FIRST] = [0, 1, 2, 3];
const FIELD_BYTES = 6;
const HEAD_BYTES = 4 * FIELD_BYTES;

/** Undefined when the stream is not over, or was not moved as a whole into one row; or when a host has claimed it since. */
export function packed({ number, view, viewRow, chunks, events, moved }: Slot): string | undefined {
  if (view.kind !== "live" || view.state.end === undefined) return undefined;
  const { state, lease } = view;
  const [chunksEnd, eventsEnd] = [state.nextSeqno, state.eventHead + 1];
  const [chunksPart, eventsPart] = [chunks.find(0), events.find(state.eventFloor)];
  if (chunksPart?.count !== chunksEnd || eventsPart === undefined) return undefined;
  if (eventsPart.first + eventsPart.count !== eventsEnd) return undefined;
  if (chunksPart.row !== viewRow || eventsPart.row !== viewRow) return undefined;
  if (moved.chunks !== chunksEnd || moved.events !== eventsEnd) return undefined;
  // The index finds the text by its name.
  const meta = encodeMeta({ name: { principal: "", idempotencyKey: "" }, state, lease });
  const bytes = Buffer.alloc(HEAD_BYTES + meta.length);
  const fields = [state.activityMs, eventsPart.row, number, eventsPart.first];
  for (const [at, value] of fields.entries()) bytes.writeUIntBE(value, at * FIELD_BYTES, FIELD_BYTES);
  bytes.set(meta, HEAD_BYTES);
  return bytes.toString("latin1");
}

export function unpacked(name: StreamName, text: string): Slot {
  const { state, lease } = decodeMeta(new Uint8Array(Buffer.from(text.slice(HEAD_BYTES), "latin1")));
  const [chunksEnd, eventsEnd] = [state.nextSeqno, state.eventHead + 1];
  const [row, eventsFirst] = [fieldOf(text, ROW), fieldOf(text, EVENTS_FIRST)];
  const [chunks, events] = [new SegmentList(), new SegmentList()];
  chunks.push(0, chunksEnd, row);
  events.push(eventsFirst, eventsEnd - eventsFirst, row);
  const moved = { chunks: chunksEnd, events: eventsEnd };
  return {
    number: fieldOf(text, NUMBER),
    name,
    view: { kind: "live", state, lease },
    chunks,
    events,
    viewRow: row,
    moved,
  };
}

export function activityOf(text: string): number {
  return fieldOf(text, ACTIVITY);
}

function fieldOf(text: string, at: number): number {
  let value = 0;
  for (let byte = at * FIELD_BYTES; byte < (at + 1) * FIELD_BYTES; byte++) {
    value = value * 256 + text.charCodeAt(byte);
  }
  return value;
}
