/**
 * What a store keeps of one stream besides the bodies: who owns it, where both logs stand, how far
 * its life has gone.
 *
 * The state changes only by commits, and `applyCommit` is the one place that says how: the store
 * uses it for what is durable, the host for what it has staged, so the two cannot drift apart.
 *
 * Invariant: heads, floors and epochs never fall, and a life never goes back (A1, B1, D1, D6).
 */
import type { EndReason } from "../protocol/frames.ts";
import { assert } from "../protocol/assert.ts";

/** A stream belongs to a principal: the same idempotency key of another one is another stream (D4). */
export interface StreamName {
  readonly principal: string;
  readonly idempotencyKey: string;
}

/** One client that has written, and where the logs stood when it began (D2). */
export interface Writer {
  readonly journalId: string;
  readonly sinceSeqno: number;
  readonly sinceEvent: number;
}

export interface StreamState {
  /** Tells the right stream key from a wrong one without storing it (E1). */
  readonly keyCheck: Uint8Array;
  /** The same for the key of its conversation; undefined when the server keeps none for it. */
  readonly conversationCheck: Uint8Array | undefined;
  readonly createdMs: number;
  readonly activityMs: number;
  readonly hostEpoch: number;
  /** All writers so far; the last one may write. */
  readonly writers: readonly Writer[];
  /** Of the connection that may write: rises with each writer, and when one attaches again without its journal. */
  readonly writerEpoch: number;
  readonly nextSeqno: number;
  /** The client has said that `nextSeqno - 1` was its last word. */
  readonly closed: boolean;
  readonly eventHead: number;
  readonly eventFloor: number;
  readonly aborted: boolean;
  readonly end: EndReason | undefined;
}

/** What a commit may change besides adding to the logs. */
export interface StateChange {
  readonly writer?: { readonly writers: readonly Writer[]; readonly writerEpoch: number };
  readonly closed?: true;
  readonly aborted?: true;
  readonly end?: EndReason;
  readonly eventFloor?: number;
  /** Nothing but the time of the last activity. */
  readonly touched?: true;
}

/** The shape of a commit, without bodies. */
export interface CommitShape {
  readonly chunkCount: number;
  readonly eventCount: number;
  readonly change: StateChange;
}

/** Of the host that makes a stream. */
export const FIRST_HOST_EPOCH = 1;

export function newStreamState(
  keyCheck: Uint8Array,
  nowMs: number,
  hostEpoch: number,
  conversationCheck?: Uint8Array,
): StreamState {
  return {
    keyCheck,
    conversationCheck,
    createdMs: nowMs,
    activityMs: nowMs,
    hostEpoch,
    writers: [],
    writerEpoch: 0,
    nextSeqno: 0,
    closed: false,
    eventHead: 0,
    eventFloor: 1,
    aborted: false,
    end: undefined,
  };
}

export function applyCommit(state: StreamState, shape: CommitShape, nowMs: number): StreamState {
  const { change } = shape;
  assert(shape.eventCount === 0 || state.end === undefined, "no event follows the end");
  assert(shape.chunkCount === 0 || !state.closed, "no chunk follows the close");
  assert(change.end === undefined || shape.eventCount > 0, "the end is an event");
  const floorMax = state.eventHead + shape.eventCount + 1;
  const eventFloor = change.eventFloor ?? state.eventFloor;
  assert(eventFloor >= state.eventFloor && eventFloor <= floorMax, "a floor rises, up to the head");
  const { writers, writerEpoch } = change.writer ?? state;
  assert(writerEpoch >= state.writerEpoch && writers.length >= state.writers.length, "an epoch never falls");
  return {
    ...state,
    activityMs: Math.max(state.activityMs, nowMs),
    writers,
    writerEpoch,
    nextSeqno: state.nextSeqno + shape.chunkCount,
    closed: state.closed || change.closed === true,
    eventHead: state.eventHead + shape.eventCount,
    eventFloor,
    aborted: state.aborted || change.aborted === true,
    end: state.end ?? change.end,
  };
}
