/**
 * The client's wish to stop a turn, from the button to the server's word that it is recorded.
 *
 * The wish goes into the journal first, then into every attach and onto every connection until a
 * welcome or a heartbeat says `aborted`. It names one stream by the connection it travels on, so a late one cannot reach a
 * later turn.
 *
 * Invariant: a recorded wish is repeated at each attach until it is confirmed or moot (D3).
 */
import { unreachable } from "../protocol/assert.ts";

export interface State {
  readonly wish: "none" | "journaling" | "journaled";
  /** The server has it. */
  readonly settled: boolean;
  readonly attached: boolean;
}

export type Input =
  | { readonly kind: "wanted" }
  | { readonly kind: "journaled" }
  /** A welcome or a heartbeat. */
  | { readonly kind: "told"; readonly aborted: boolean }
  | { readonly kind: "attached" }
  | { readonly kind: "detached" };

export type Effect = { readonly kind: "journal" } | { readonly kind: "send" };

type Step = readonly [State, readonly Effect[]];

export function init(journaled: boolean): State {
  return { wish: journaled ? "journaled" : "none", settled: false, attached: false };
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "wanted":
      if (state.wish !== "none" || state.settled) return [state, []];
      return [{ ...state, wish: "journaling" }, [{ kind: "journal" }]];
    case "journaled":
      return send({ ...state, wish: "journaled" });
    case "told":
      // A heartbeat that knows nothing of it betrays an abort that was lost on a live connection.
      return send({ ...state, settled: state.settled || input.aborted });
    case "attached":
      return send({ ...state, attached: true });
    case "detached":
      return [{ ...state, attached: false }, []];
    default:
      return unreachable(input);
  }
}

/** Whether an attach must carry the wish: it is on disk, and the server has not confirmed it. */
export function isDue(state: State): boolean {
  return state.wish === "journaled" && !state.settled;
}

function send(state: State): Step {
  return [state, state.attached && isDue(state) ? [{ kind: "send" }] : []];
}
