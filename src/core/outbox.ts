/**
 * The chunks a client has said and the server has not yet acknowledged.
 *
 * A chunk gets its seqno when it is submitted, may leave once the journal has it (`record-needs.ts`), and is
 * released when an ack covers it. Playback is not a mode: a welcome moves the `sent` cursor back to
 * what the server has, and the ordinary sending rule does the rest, so whatever a crash or a cut
 * takes away, the outbox can be rebuilt from the journal alone.
 *
 * Invariant: acked <= next, journaled <= next, sent <= journaled (but for an inline chunk 0), and
 * every seqno from acked on is in the journal or on its way there (A5, A6).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { assert, unreachable } from "../protocol/assert.ts";

export interface State {
  /** False until a takeover has learned from its first welcome where numbering continues (D2). */
  readonly numbered: boolean;
  /** The seqno that the next submitted chunk gets. */
  readonly next: number;
  /** Everything below is on the client's disk. */
  readonly journaled: number;
  /** Everything below is durable on the server. */
  readonly acked: number;
  /** Everything below has been handed to this connection. */
  readonly sent: number;
  readonly attached: boolean;
  /** The sizes of the chunks from `acked` on. */
  readonly unackedBytes: readonly number[];
}

export type Input =
  | { readonly kind: "submit"; readonly bytes: number }
  /** Every chunk below `next` is synced. */
  | { readonly kind: "journaled"; readonly next: number }
  /** `inline` chunks travelled inside the attach and need not be sent again. */
  | { readonly kind: "welcome"; readonly nextSeqno: number; readonly inline: number }
  | { readonly kind: "ack"; readonly nextSeqno: number }
  | { readonly kind: "detached" };

export type Effect =
  | { readonly kind: "journal"; readonly seqno: number }
  | { readonly kind: "transmit"; readonly seqno: number }
  /** Bodies below are no longer needed. */
  | { readonly kind: "release"; readonly below: number }
  | { readonly kind: "fail"; readonly code: ErrorCode; readonly message: string };

type Step = readonly [State, readonly Effect[]];

export function init(recovered: {
  readonly numbered: boolean;
  readonly acked: number;
  readonly unackedBytes: readonly number[];
}): State {
  const next = recovered.acked + recovered.unackedBytes.length;
  return { ...recovered, next, journaled: next, sent: recovered.acked, attached: false };
}

/** Whether a chunk of this size may be submitted now; the application waits while it may not (E8). */
export function hasRoom(state: State, bytes: number): boolean {
  if (!state.numbered || state.unackedBytes.length >= LIMITS.unackedChunksMax) return false;
  const waiting = state.unackedBytes.reduce((sum, size) => sum + size, 0);
  return waiting === 0 || waiting + bytes <= LIMITS.unackedBytesMax;
}

export function step(state: State, input: Input): Step {
  assert(state.acked <= state.next && state.journaled <= state.next, "an outbox holds what was said");
  switch (input.kind) {
    case "submit": {
      assert(hasRoom(state, input.bytes), "a chunk is submitted only when there is room");
      const seqno = state.next;
      const unackedBytes = [...state.unackedBytes, input.bytes];
      return [{ ...state, next: seqno + 1, unackedBytes }, [{ kind: "journal", seqno }]];
    }
    case "journaled":
      assert(input.next <= state.next, "only what was said is journaled");
      return transmit({ ...state, journaled: Math.max(state.journaled, input.next) });
    case "welcome":
      return welcome(state, input.nextSeqno, input.inline);
    case "ack":
      return acknowledge(state, input.nextSeqno);
    case "detached":
      return [{ ...state, attached: false, sent: state.acked }, []];
    default:
      return unreachable(input);
  }
}

function welcome(state: State, nextSeqno: number, inline: number): Step {
  if (!state.numbered) {
    const base = { next: nextSeqno, journaled: nextSeqno, acked: nextSeqno, sent: nextSeqno };
    return [{ ...state, ...base, numbered: true, attached: true }, []];
  }
  if (nextSeqno < state.acked) {
    return [
      state,
      [fail("stream_failed", `the server acknowledged ${state.acked} chunks and now has only ${nextSeqno}`)],
    ];
  }
  const [acked, released] = acknowledge(state, nextSeqno);
  if (nextSeqno > state.next) return [state, released];
  const [sending, sends] = transmit({ ...acked, attached: true, sent: Math.max(nextSeqno, inline) });
  return [sending, [...released, ...sends]];
}

function acknowledge(state: State, nextSeqno: number): Step {
  if (nextSeqno <= state.acked) return [state, []];
  if (nextSeqno > state.next) {
    return [
      state,
      [fail("seqno_conflict", `the server has ${nextSeqno} chunks, this journal has said ${state.next}`)],
    ];
  }
  const unackedBytes = state.unackedBytes.slice(nextSeqno - state.acked);
  const sent = Math.max(state.sent, nextSeqno);
  return [{ ...state, acked: nextSeqno, sent, unackedBytes }, [{ kind: "release", below: nextSeqno }]];
}

/** The one sending rule: what is journaled and not yet on this connection leaves, in order. */
function transmit(state: State): Step {
  if (!state.attached || state.sent >= state.journaled) return [state, []];
  const effects: Effect[] = [];
  for (let seqno = state.sent; seqno < state.journaled; seqno++) effects.push({ kind: "transmit", seqno });
  return [{ ...state, sent: state.journaled }, effects];
}

function fail(code: ErrorCode, message: string): Effect {
  return { kind: "fail", code, message };
}
