/**
 * How far a client has followed a stream's event log.
 *
 * Only the next event is taken. A lower one is a repetition and dropped; a higher one means that
 * something is missing, and the answer is to reconnect from the cursor, never to skip. A heartbeat
 * that names a later event than we have betrays a lost last frame.
 *
 * Invariant: what has been taken is exactly 1 ... taken, each once, in order (B1, B4, B7).
 */
import type { EndReason } from "../protocol/frames.ts";
import { unreachable } from "../protocol/assert.ts";

export interface State {
  /** The last event taken; 0 for none. */
  readonly taken: number;
  readonly end: EndReason | undefined;
}

export type Input =
  | { readonly kind: "event"; readonly eventId: number; readonly end: EndReason | undefined }
  /** What the server says it has handed to this connection. */
  | { readonly kind: "heartbeat"; readonly eventHead: number };

export type Effect =
  | { readonly kind: "take"; readonly eventId: number; readonly end: EndReason | undefined }
  | { readonly kind: "gap"; readonly message: string };

export function init(taken: number): State {
  return { taken, end: undefined };
}

export function step(state: State, input: Input): readonly [State, readonly Effect[]] {
  switch (input.kind) {
    case "event": {
      if (input.eventId <= state.taken) return [state, []];
      const { eventId, end } = input;
      if (eventId !== state.taken + 1) {
        return [state, [{ kind: "gap", message: `event ${eventId} came, ${state.taken + 1} was expected` }]];
      }
      return [{ taken: eventId, end }, [{ kind: "take", eventId, end }]];
    }
    case "heartbeat":
      if (input.eventHead <= state.taken) return [state, []];
      return [state, [{ kind: "gap", message: `event ${input.eventHead} was sent, ${state.taken} arrived` }]];
    default:
      return unreachable(input);
  }
}
