/**
 * The chunks a server has accepted on one stream: dedupe, conflict, gap, ack.
 *
 * The next seqno is accepted; a lower one is compared by content MAC and acknowledged again or
 * refused; a higher one is a gap. An ack leaves only for what is durable, so a duplicate of a chunk
 * whose commit is still in flight is answered by that commit.
 *
 * Only the newest MACs are kept: a client never has more than `unackedChunksMax` chunks open, so an
 * older duplicate cannot be a playback and is refused rather than acked unseen (A2, F2).
 *
 * Invariant: durable <= next, and the accepted seqnos are 0, 1, ... next - 1, each once (A1).
 */
import { isSameBytes } from "../protocol/bytes.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { assert, unreachable } from "../protocol/assert.ts";

export interface State {
  /** The seqno to accept next; everything below is accepted. */
  readonly next: number;
  /** Everything below survives a crash. */
  readonly durable: number;
  /** The content MACs of the newest accepted chunks, the last one belonging to `next - 1`. */
  readonly macs: readonly Uint8Array[];
  /** The sizes of the chunks that are accepted and not yet durable. */
  readonly undurableBytes: readonly number[];
  /** A close has been accepted: nothing may follow. */
  readonly closed: boolean;
}

export type Input =
  | {
      readonly kind: "chunk";
      readonly seqno: number;
      readonly mac: Uint8Array;
      readonly bytes: number;
      readonly isClose: boolean;
    }
  /** Everything below `nextSeqno` is durable. */
  | { readonly kind: "committed"; readonly nextSeqno: number }
  /** The same, as a node reads it that does not run the stream. `macs` are those of the chunks that became durable, the newest at least. */
  | {
      readonly kind: "found";
      readonly nextSeqno: number;
      readonly macs: readonly Uint8Array[];
      readonly closed: boolean;
    };

export type Effect =
  | { readonly kind: "accept"; readonly seqno: number; readonly isClose: boolean }
  | { readonly kind: "ack"; readonly seqno: number }
  | { readonly kind: "refuse"; readonly code: ErrorCode; readonly message: string };

type Step = readonly [State, readonly Effect[]];

/** `macs` are those of the last chunks in the store, at most `unackedChunksMax`. */
export function init(nextSeqno: number, macs: readonly Uint8Array[], closed: boolean): State {
  assert(macs.length === Math.min(nextSeqno, LIMITS.unackedChunksMax), "the newest MACs are all there");
  return { next: nextSeqno, durable: nextSeqno, macs, undurableBytes: [], closed };
}

export function step(state: State, input: Input): Step {
  assert(state.durable <= state.next, "only what was accepted is durable");
  switch (input.kind) {
    case "chunk":
      if (input.seqno > state.next) {
        return refuse(state, "seqno_gap", `chunk ${input.seqno} came, ${state.next} was expected`);
      }
      return input.seqno < state.next ? repeated(state, input.seqno, input.mac) : accept(state, input);
    case "committed": {
      assert(input.nextSeqno <= state.next, "only accepted chunks are committed");
      if (input.nextSeqno <= state.durable) return [state, []];
      const undurableBytes = state.undurableBytes.slice(input.nextSeqno - state.durable);
      return [
        { ...state, durable: input.nextSeqno, undurableBytes },
        [{ kind: "ack", seqno: input.nextSeqno - 1 }],
      ];
    }
    case "found":
      return found(state, input);
    default:
      return unreachable(input);
  }
}

/** Another node has committed what was said here, or what was said elsewhere: the log decides, and what differs from it is refused (A2). */
function found(state: State, { nextSeqno, macs, closed }: Extract<Input, { kind: "found" }>): Step {
  if (nextSeqno <= state.durable) return [state, []];
  const fresh = macs.slice(-(nextSeqno - state.durable));
  const isOther = fresh.some((mac, at) => {
    const said = macOf(state, nextSeqno - fresh.length + at);
    return said !== undefined && !isSameBytes(said, mac);
  });
  const waiting = Math.max(0, state.next - nextSeqno);
  const older = state.macs.slice(0, Math.max(0, state.macs.length - (state.next - state.durable)));
  const newer = waiting === 0 ? [] : state.macs.slice(-waiting);
  const next: State = {
    next: Math.max(state.next, nextSeqno),
    durable: nextSeqno,
    macs: [...older, ...fresh, ...newer].slice(-LIMITS.unackedChunksMax),
    undurableBytes: waiting === 0 ? [] : state.undurableBytes.slice(-waiting),
    closed: closed || (waiting > 0 && state.closed),
  };
  if (isOther)
    return refuse(next, "seqno_conflict", `a chunk below ${nextSeqno} was logged with other content`);
  return [next, [{ kind: "ack", seqno: nextSeqno - 1 }]];
}

/** What was accepted and is not durable was said by a writer that is one no longer: it never happened (D2). */
export function forget(state: State, closed: boolean): State {
  const { durable, next } = state;
  const macs = state.macs.slice(0, Math.max(0, state.macs.length - (next - durable)));
  return { next: durable, durable, macs, undurableBytes: [], closed };
}

function accept(state: State, chunk: Extract<Input, { kind: "chunk" }>): Step {
  if (state.closed) return refuse(state, "stream_ended", "nothing may follow a close");
  const { seqno, mac, bytes, isClose } = chunk;
  const waiting = state.undurableBytes.reduce((sum, size) => sum + size, 0);
  const isFull =
    state.undurableBytes.length >= LIMITS.unackedChunksMax ||
    (waiting > 0 && waiting + bytes > LIMITS.unackedBytesMax);
  if (isFull) return refuse(state, "too_large", "more is unacknowledged than a client may have open");
  const undurableBytes = [...state.undurableBytes, bytes];
  const macs = [...state.macs.slice(-(LIMITS.unackedChunksMax - 1)), mac];
  return [
    { ...state, next: seqno + 1, macs, undurableBytes, closed: isClose },
    [{ kind: "accept", seqno, isClose }],
  ];
}

/** True when the chunk says something else than the one that was accepted under its seqno. */
export function isOther(
  state: State,
  { seqno, mac }: { readonly seqno: number; readonly mac: Uint8Array },
): boolean {
  const known = seqno < state.next ? macOf(state, seqno) : undefined;
  return known !== undefined && !isSameBytes(known, mac);
}

function macOf({ macs, next }: State, seqno: number): Uint8Array | undefined {
  return macs[macs.length - (next - seqno)];
}

function repeated(state: State, seqno: number, mac: Uint8Array): Step {
  const known = macOf(state, seqno);
  if (known === undefined) {
    return refuse(
      state,
      "seqno_conflict",
      `chunk ${seqno} is older than any chunk that can be unacknowledged`,
    );
  }
  if (!isSameBytes(known, mac)) {
    return refuse(state, "seqno_conflict", `chunk ${seqno} came again with other content`);
  }
  return [state, state.durable > seqno ? [{ kind: "ack", seqno: state.durable - 1 }] : []];
}

function refuse(state: State, code: ErrorCode, message: string): Step {
  return [state, [{ kind: "refuse", code, message }]];
}
