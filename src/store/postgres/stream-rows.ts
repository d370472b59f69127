/**
 * A stream's row and its batches: columns as values, and back.
 */
import * as z from "zod/mini";
import type { StreamName, StreamState, Writer } from "../../core/stream-state.ts";
import { assert } from "../../protocol/assert.ts";
import { joinedBytes } from "../../protocol/bytes.ts";
import type { EndReason } from "../../protocol/frames.ts";
import type { Lease } from "../stream-meta.ts";
import type { Gone, LogBatches, LogName } from "../stream-store.ts";
import { bytes, flag, number, optional, type Row, text } from "./driver.ts";

/** A live stream as it lies in the database. */
export interface StoredStream {
  readonly id: number;
  readonly period: number;
  /** Drawn by the node that made it: tells its own stream from another of the same name. */
  readonly birth: number;
  readonly state: StreamState;
  readonly lease: Lease;
}

/** Of `s`, the streams' table. */
export const STREAM_COLUMNS = `s.id, s.period, s.birth, s.key_check, s.conversation_check, s.created_ms, s.activity_ms,
  s.host_epoch, s.host_id, s.lease_ms, s.lease_until_ms, s.writers, s.writer_epoch, s.next_seqno, s.event_head, s.event_floor,
  s.is_closed, s.is_aborted, s.end_reason`;

/** What commits change, beside the heads. */
export type ChangingState = Pick<
  StreamState,
  "activityMs" | "writers" | "writerEpoch" | "closed" | "eventFloor" | "aborted" | "end"
>;

/** Of `s`, the same. */
export const CHANGING_COLUMNS =
  "s.id, s.activity_ms, s.writers, s.writer_epoch, s.event_floor, s.is_closed, s.is_aborted, s.end_reason";

const ENDS: readonly EndReason[] = ["completed", "aborted", "failed"];

export function changingState(row: Row): ChangingState {
  const end = optional(row, "end_reason", text);
  const reason = ENDS.find((known) => known === end);
  assert(reason !== undefined || end === undefined, "an end is one of ours");
  return {
    activityMs: number(row, "activity_ms"),
    writers: writersIn(text(row, "writers")),
    writerEpoch: number(row, "writer_epoch"),
    closed: flag(row, "is_closed"),
    eventFloor: number(row, "event_floor"),
    aborted: flag(row, "is_aborted"),
    end: reason,
  };
}

export function storedStream(row: Row): StoredStream {
  return {
    id: number(row, "id"),
    period: number(row, "period"),
    birth: number(row, "birth"),
    state: {
      keyCheck: bytes(row, "key_check"),
      conversationCheck: optional(row, "conversation_check", bytes),
      createdMs: number(row, "created_ms"),
      ...changingState(row),
      hostEpoch: number(row, "host_epoch"),
      nextSeqno: number(row, "next_seqno"),
      eventHead: number(row, "event_head"),
    },
    lease: {
      hostId: text(row, "host_id"),
      leaseMs: number(row, "lease_ms"),
      untilMs: number(row, "lease_until_ms"),
    },
  };
}

export function goneStream(row: Row): Gone {
  return { kind: "gone", keyCheck: bytes(row, "gone_key_check"), goneMs: number(row, "gone_ms") };
}

/** As JSON: the list is short, and changes with a new writer only. */
export function writersText(writers: readonly Writer[]): string {
  return JSON.stringify(
    writers.map(({ journalId, sinceSeqno, sinceEvent }) => ({ journalId, sinceSeqno, sinceEvent })),
  );
}

const WRITERS = z.array(z.object({ journalId: z.string(), sinceSeqno: z.number(), sinceEvent: z.number() }));

/** A stream's writers are the same from commit to commit. */
const READ_WRITERS_MAX = 4_096;
const readWriters = new Map<string, readonly Writer[]>();

function writersIn(json: string): readonly Writer[] {
  const known = readWriters.get(json);
  if (known !== undefined) return known;
  const writers = z.parse(WRITERS, JSON.parse(json));
  if (readWriters.size >= READ_WRITERS_MAX) readWriters.clear();
  readWriters.set(json, writers);
  return writers;
}

/** How a log is called in the database. */
export const LOG_NUMBER: Readonly<Record<LogName, number>> = { chunks: 0, events: 1 };

/** Each behind its length, which is one byte. */
export function packedMacs(macs: readonly Uint8Array[]): Uint8Array {
  return joinedBytes(macs.flatMap((mac) => [Uint8Array.of(mac.byteLength), mac]));
}

function unpackedMacs(packed: Uint8Array): readonly Uint8Array[] {
  const macs: Uint8Array[] = [];
  for (let at = 0; at < packed.byteLength;) {
    const end = at + 1 + (packed[at] ?? 0);
    assert(end <= packed.byteLength, "a MAC is whole");
    macs.push(packed.slice(at + 1, end));
    at = end;
  }
  return macs;
}

export const readBatch: { readonly [L in LogName]: (row: Row) => LogBatches[L] } = {
  events: (row) => ({
    first: number(row, "first"),
    count: number(row, "count"),
    sealed: bytes(row, "sealed"),
  }),
  chunks: (row) => ({
    first: number(row, "first"),
    count: number(row, "count"),
    sealed: bytes(row, "sealed"),
    macs: unpackedMacs(bytes(row, "macs")),
  }),
};

/** What PostgreSQL cannot hold as text must not reach it: it would fail everything that is sent together. */
export function assertText(value: string, what: string): void {
  assert(value.isWellFormed() && !value.includes("\0"), `${what} is well-formed text without NUL`);
}

export function assertName({ principal, idempotencyKey }: StreamName): void {
  assertText(principal, "a principal");
  assertText(idempotencyKey, "an idempotency key");
}
