/**
 * What one connection still has to be sent of a stream's event log.
 *
 * A connection is a cursor over the log, nothing more. Replay is the cursor standing far behind;
 * live delivery is the same rule at the log's end: while there is room and something durable beyond the
 * cursor, read from cursor + 1 and write. Nothing is queued here, so a slow reader costs a number,
 * and one that stays blocked is cut and reconnects later. The first read is small, and each one that follows it twice as large: a reader that is far
 * behind has its first event soon, and the rest in few reads.
 *
 * Invariant: cursor <= head, head is durable, and the cursor moves only over what was written (B1, B2).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { assert, unreachable } from "../protocol/assert.ts";

export interface Options {
  /** Stop reading for a connection while this much waits unsent: a quarter of the hard bound. */
  readonly pauseBytes: number;
  /** A connection that does not drain for this long is cut: it can resume, memory cannot. */
  readonly slowReaderMs: number;
}

/** Some hundred words; a batch that is larger is read whole. */
const FIRST_READ_BYTES = 16 * 1024;
/** Some commits' worth: what is read at once is also opened at once. */
const READ_BYTES_MAX = 256 * 1024;

export const DEFAULTS: Options = { pauseBytes: LIMITS.sendQueueBytesMax / 4, slowReaderMs: 30_000 };

export interface State {
  readonly options: Options;
  /** The last event written to this connection. */
  readonly cursor: number;
  /** The last durable event. */
  readonly head: number;
  /** A read is under way; there is never more than one. */
  readonly reading: boolean;
  /** How much the next read of the store is to give, about. */
  readonly readBytes: number;
  /** Since when too much waits unsent. */
  readonly blockedSinceMs: number | undefined;
}

export type Input =
  | { readonly kind: "head"; readonly eventHead: number }
  | {
      readonly kind: "written";
      readonly through: number;
      readonly waitingBytes: number;
      readonly nowMs: number;
    }
  | { readonly kind: "drained" }
  | { readonly kind: "tick"; readonly nowMs: number };

export type Effect =
  | { readonly kind: "read"; readonly from: number; readonly bytesMax: number }
  | { readonly kind: "cut"; readonly code: ErrorCode; readonly message: string };

type Step = readonly [State, readonly Effect[]];

export function init(options: Options, cursor: number, eventHead: number): Step {
  const readBytes = FIRST_READ_BYTES;
  return pump({ options, cursor, head: eventHead, reading: false, readBytes, blockedSinceMs: undefined });
}

export function step(state: State, input: Input): Step {
  assert(state.cursor <= state.head, "a cursor never passes the durable head");
  switch (input.kind) {
    case "head":
      assert(input.eventHead >= state.head, "a head never falls");
      return pump({ ...state, head: input.eventHead });
    case "written": {
      assert(state.reading, "only what was read is written");
      assert(input.through > state.cursor && input.through <= state.head, "a write moves the cursor forward");
      if (input.waitingBytes > LIMITS.sendQueueBytesMax) {
        return [
          { ...state, cursor: input.through },
          [cut("this reader is too far behind; resume from its cursor")],
        ];
      }
      const blockedSinceMs = input.waitingBytes > state.options.pauseBytes ? input.nowMs : undefined;
      return pump({ ...state, cursor: input.through, reading: false, blockedSinceMs });
    }
    case "drained":
      return pump({ ...state, blockedSinceMs: undefined });
    case "tick": {
      const since = state.blockedSinceMs;
      const isStuck = since !== undefined && input.nowMs - since > state.options.slowReaderMs;
      return [state, isStuck ? [cut("this reader does not read; resume from its cursor")] : []];
    }
    default:
      return unreachable(input);
  }
}

function pump(state: State): Step {
  const isIdle = state.reading || state.blockedSinceMs !== undefined || state.cursor >= state.head;
  if (isIdle) return [state, []];
  const { cursor, readBytes: bytesMax } = state;
  const readBytes = Math.min(2 * bytesMax, READ_BYTES_MAX);
  return [{ ...state, reading: true, readBytes }, [{ kind: "read", from: cursor + 1, bytesMax }]];
}

function cut(message: string): Effect {
  return { kind: "cut", code: "overloaded", message };
}
