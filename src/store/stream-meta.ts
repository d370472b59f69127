/**
 * What the commit log says about a stream besides its bodies, as values and as bytes.
 *
 * A state is always restated whole, never as a difference, so the last one is enough and every row
 * before it may go. Generated messages do the encoding: this is not the hot path.
 */
import { encoded, fromBinary } from "../protocol/message.ts";
import type { StreamName, StreamState } from "../core/stream-state.ts";
import { enumName } from "../protocol/enum-name.ts";
import type { EndReason } from "../protocol/frames.ts";
import {
  ForgottenStreamsSchema,
  StreamEnd,
  StreamMetaSchema,
  TombstoneSchema,
} from "../protocol/gen/holdfast/storage/v1/commit.ts";
import type { NumberRange } from "./number-ranges.ts";

/** Who runs a stream and until when. */
export interface Lease {
  readonly hostId: string;
  /** What a commit prolongs the lease to; 0 once it was given back. */
  readonly leaseMs: number;
  readonly untilMs: number;
}

export interface StreamMeta {
  readonly name: StreamName;
  readonly state: StreamState;
  readonly lease: Lease;
}

export interface Tombstone {
  readonly name: StreamName;
  readonly keyCheck: Uint8Array;
  readonly goneMs: number;
}

const ENDS: Readonly<Record<EndReason, StreamEnd>> = {
  completed: StreamEnd.COMPLETED,
  aborted: StreamEnd.ABORTED,
  failed: StreamEnd.FAILED,
};

const NO_BYTES = new Uint8Array();

export function encodeMeta({ name, state, lease }: StreamMeta): Uint8Array {
  return encoded(StreamMetaSchema, {
    principal: name.principal,
    idempotencyKey: name.idempotencyKey,
    keyCheck: state.keyCheck,
    conversationCheck: state.conversationCheck ?? NO_BYTES,
    createdMs: BigInt(state.createdMs),
    activityMs: BigInt(state.activityMs),
    hostEpoch: state.hostEpoch,
    writers: [...state.writers],
    writerEpoch: state.writerEpoch,
    nextSeqno: state.nextSeqno,
    closed: state.closed,
    eventHead: state.eventHead,
    eventFloor: state.eventFloor,
    aborted: state.aborted,
    end: state.end === undefined ? StreamEnd.UNSPECIFIED : ENDS[state.end],
    lease: { hostId: lease.hostId, leaseMs: BigInt(lease.leaseMs), untilMs: BigInt(lease.untilMs) },
  });
}

export function decodeMeta(bytes: Uint8Array): StreamMeta {
  const meta = fromBinary(StreamMetaSchema, bytes);
  if (meta.lease === undefined) throw new RangeError("a state without a lease");
  const end = enumName(ENDS, meta.end);
  if (end === undefined && meta.end !== StreamEnd.UNSPECIFIED) {
    throw new RangeError(`unknown end of a stream: ${meta.end}`);
  }
  return {
    name: { principal: meta.principal, idempotencyKey: meta.idempotencyKey },
    state: {
      keyCheck: meta.keyCheck.slice(),
      conversationCheck: meta.conversationCheck.length === 0 ? undefined : meta.conversationCheck.slice(),
      createdMs: Number(meta.createdMs),
      activityMs: Number(meta.activityMs),
      hostEpoch: meta.hostEpoch,
      writers: meta.writers.map(({ journalId, sinceSeqno, sinceEvent }) => ({
        journalId,
        sinceSeqno,
        sinceEvent,
      })),
      writerEpoch: meta.writerEpoch === 0 ? meta.writers.length : meta.writerEpoch,
      nextSeqno: meta.nextSeqno,
      closed: meta.closed,
      eventHead: meta.eventHead,
      eventFloor: meta.eventFloor,
      aborted: meta.aborted,
      end,
    },
    lease: {
      hostId: meta.lease.hostId,
      leaseMs: Number(meta.lease.leaseMs),
      untilMs: Number(meta.lease.untilMs),
    },
  };
}

export function encodeTombstone({ name, keyCheck, goneMs }: Tombstone): Uint8Array {
  const { principal, idempotencyKey } = name;
  return encoded(TombstoneSchema, { principal, idempotencyKey, keyCheck, goneMs: BigInt(goneMs) });
}

export function decodeTombstone(bytes: Uint8Array): Tombstone {
  const { principal, idempotencyKey, keyCheck, goneMs } = fromBinary(TombstoneSchema, bytes);
  return { name: { principal, idempotencyKey }, keyCheck: keyCheck.slice(), goneMs: Number(goneMs) };
}

export function encodeForgotten(ranges: readonly NumberRange[]): Uint8Array {
  return encoded(ForgottenStreamsSchema, {
    ranges: ranges.map(({ first, last }) => ({ first: BigInt(first), last: BigInt(last) })),
  });
}

export function decodeForgotten(bytes: Uint8Array): readonly NumberRange[] {
  return fromBinary(ForgottenStreamsSchema, bytes).ranges.map(({ first, last }) => ({
    first: Number(first),
    last: Number(last),
  }));
}
