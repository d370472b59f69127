/**
 * How far a stream's life has gone on the server: generating, aborted, ended.
 *
 * An abort wins: from the moment it is accepted the application may say nothing but its last word,
 * and if it does not, the host says it after a grace period, so an abort always leads to an end.
 *
 * Invariant: the stage only moves forward, there is one end, and after an abort the only event is
 * the end (D3, D6, B6).
 */
import type { EndReason } from "../protocol/frames.ts";
import { assert, unreachable } from "../protocol/assert.ts";

export interface State {
  readonly aborted: boolean;
  readonly end: EndReason | undefined;
}

export type Input =
  | { readonly kind: "abort" }
  | { readonly kind: "emit" }
  | { readonly kind: "end"; readonly reason: EndReason }
  /** The application had its time to end after an abort. */
  | { readonly kind: "grace_over" };

export type Effect =
  /** Record the abort, and tell the application. */
  | { readonly kind: "record_abort" }
  | { readonly kind: "record_event" }
  | { readonly kind: "record_end"; readonly reason: EndReason }
  /** Too late: the stream is aborted or has ended. */
  | { readonly kind: "refuse" };

type Step = readonly [State, readonly Effect[]];

export function init(aborted: boolean, end: EndReason | undefined): State {
  return { aborted, end };
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "abort":
      if (state.aborted || state.end !== undefined) return [state, []];
      return [{ ...state, aborted: true }, [{ kind: "record_abort" }]];
    case "emit":
      return [state, [{ kind: state.aborted || state.end !== undefined ? "refuse" : "record_event" }]];
    case "end":
      if (state.end !== undefined) return [state, [{ kind: "refuse" }]];
      return end(state, state.aborted ? "aborted" : input.reason);
    case "grace_over":
      assert(state.aborted, "grace runs only after an abort");
      return state.end === undefined ? end(state, "aborted") : [state, []];
    default:
      return unreachable(input);
  }
}

function end(state: State, reason: EndReason): Step {
  return [{ ...state, end: reason }, [{ kind: "record_end", reason }]];
}
