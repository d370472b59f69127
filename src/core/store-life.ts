/**
 * The life of the store under a server: open, failed, opened anew, given up.
 *
 * A store that failed is never used again (F5). After a pause the server opens it as a start does, with nothing kept from
 * memory. An opening counts as the end of the outage when it has held for a while: a disk that takes the first write and
 * refuses the next has not recovered.
 *
 * Invariant: an outage ends with an opening that holds, or with the `failuresMax`-th one in a row that does not.
 */
import { assert, unreachable } from "../protocol/assert.ts";

export interface Options {
  /** How long after a failure the store is opened for the first time. */
  readonly pauseMs: number;
  /** So many times longer is each pause than the one before it. */
  readonly pauseFactor: number;
  /** So many openings in a row may fail. */
  readonly failuresMax: number;
  /** An opening that holds for so long has ended the outage. */
  readonly holdsMs: number;
  /** After so long the process counts as ill, so that a supervisor acts. */
  readonly illMs: number;
}

/** The openings come 5 s, 20 s and 65 s after the failure: a supervisor that watches has had a reason to act before the last. */
export const DEFAULTS: Options = {
  pauseMs: 5_000,
  pauseFactor: 3,
  failuresMax: 3,
  holdsMs: 60_000,
  illMs: 60_000,
};

interface Outage {
  readonly sinceMs: number;
  /** Openings in a row that failed, or did not hold. */
  readonly failures: number;
}

export type State =
  /** `outage`: the one before this opening, which continues if the opening does not hold. */
  | {
      readonly kind: "open";
      readonly options: Options;
      readonly openedMs: number;
      readonly outage: Outage | undefined;
    }
  | {
      readonly kind: "pausing" | "opening" | "given_up";
      readonly options: Options;
      readonly outage: Outage;
    }
  | { readonly kind: "stopped" };

export type Input =
  /** The store that is open has failed. */
  | { readonly kind: "failed"; readonly nowMs: number }
  /** The pause is over. */
  | { readonly kind: "due" }
  | { readonly kind: "opened"; readonly nowMs: number }
  /** The store could not be opened. */
  | { readonly kind: "refused" }
  /** The server shuts down. */
  | { readonly kind: "stop" };

export type Effect =
  /** Close the store, and stop whatever stands on it. */
  | { readonly kind: "take_down" }
  | { readonly kind: "pause"; readonly pauseMs: number }
  | { readonly kind: "open" }
  /** What was opened serves from now on. */
  | { readonly kind: "put_up"; readonly downMs: number }
  /** What was opened came too late: close it. */
  | { readonly kind: "put_away" }
  | { readonly kind: "give_up" };

type Step = readonly [State, readonly Effect[]];

export function init(options: Options, nowMs: number): State {
  const { pauseMs, pauseFactor, failuresMax } = options;
  assert(pauseMs >= 0 && pauseFactor >= 1 && failuresMax >= 1, "a store is opened anew at least once");
  return { kind: "open", options, openedMs: nowMs, outage: undefined };
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "failed": {
      if (state.kind === "stopped") return [state, []];
      assert(state.kind === "open", "only an open store fails");
      const [next, effects] = afterFailure(state.options, outageOf(state, input.nowMs));
      return [next, [{ kind: "take_down" }, ...effects]];
    }
    case "due":
      if (state.kind === "stopped") return [state, []];
      assert(state.kind === "pausing", "a pause is over once");
      return [{ ...state, kind: "opening" }, [{ kind: "open" }]];
    case "opened": {
      if (state.kind === "stopped") return [state, [{ kind: "put_away" }]];
      assert(state.kind === "opening", "what is opened was ordered");
      const { options, outage } = state;
      const downMs = input.nowMs - outage.sinceMs;
      return [{ kind: "open", options, openedMs: input.nowMs, outage }, [{ kind: "put_up", downMs }]];
    }
    case "refused":
      if (state.kind === "stopped") return [state, []];
      assert(state.kind === "opening", "what is refused was ordered");
      return afterFailure(state.options, { ...state.outage, failures: state.outage.failures + 1 });
    case "stop":
      return [{ kind: "stopped" }, []];
    default:
      return unreachable(input);
  }
}

/** Whether the store can be used. */
export function isOpen(state: State): boolean {
  return state.kind === "open";
}

/** For how long the store has been down; undefined while it is not. */
export function downMs(state: State, nowMs: number): number | undefined {
  return state.kind === "open" || state.kind === "stopped" ? undefined : nowMs - state.outage.sinceMs;
}

/** Whether a supervisor should act. */
export function isIll(state: State, nowMs: number): boolean {
  const isDown = state.kind !== "open" && state.kind !== "stopped";
  return isDown && nowMs - state.outage.sinceMs >= state.options.illMs;
}

/** How many openings in a row have failed. */
export function failures(state: State): number {
  return state.kind === "stopped" ? 0 : (state.outage?.failures ?? 0);
}

/** A new outage, or the one that the last opening did not end. */
function outageOf(state: Extract<State, { kind: "open" }>, nowMs: number): Outage {
  const { openedMs, outage, options } = state;
  if (outage === undefined || nowMs - openedMs >= options.holdsMs) return { sinceMs: nowMs, failures: 0 };
  return { ...outage, failures: outage.failures + 1 };
}

function afterFailure(options: Options, outage: Outage): Step {
  if (outage.failures >= options.failuresMax) {
    return [{ kind: "given_up", options, outage }, [{ kind: "give_up" }]];
  }
  const pauseMs = options.pauseMs * options.pauseFactor ** outage.failures;
  return [{ kind: "pausing", options, outage }, [{ kind: "pause", pauseMs }]];
}
