/**
 * What to do when a connection failed, and when.
 *
 * The closed error table decides what; full jitter under a cap decides when; a budget bounds how
 * often in the long run, so that ten thousand reconnecting clients do not become a storm. Delays
 * grow until something really moved: a server that welcomes and hangs up at once earns no reset.
 *
 * Invariant: attempts within any span are bounded by the budget, and no error of remedy `stop` is
 * ever retried (F3).
 */
import { type ErrorCode, REMEDY_OF } from "../protocol/errors.ts";
import { assert, unreachable } from "../protocol/assert.ts";
import * as budget from "./budget.ts";

export interface Options {
  /** The first delay is drawn from 0 to this; each further one from 0 to one and a half times the bound before. */
  readonly baseMs: number;
  /** No delay is drawn from more than this: a returning network is noticed within half of it on average. */
  readonly capMs: number;
  readonly budget: budget.Options;
  /** Without any progress for this long the client gives up; the journal stays. */
  readonly giveUpAfterMs: number;
}

export const DEFAULTS: Options = {
  // Some five tries within the first second: most outages are a flap, and the user waits.
  baseMs: 100,
  capMs: 30_000,
  budget: { burst: 20, refillMs: 10_000 },
  giveUpAfterMs: 7_200_000,
};

/** After an outage of T ms the next try comes T / 2 later on average, T at the most. Doubling would take twice that. */
const GROWTH = 1.5;

/** So many failures in a row come before giving up, however much time has passed. */
const FAILURES_MIN = 5;

export interface State {
  readonly options: Options;
  readonly failures: number;
  readonly budget: budget.State;
  readonly progressMs: number;
  /** The server does not want to see us before. */
  readonly notBeforeMs: number;
  /** The credentials callback has been asked since the last welcome. */
  readonly asked: boolean;
}

export type Input =
  | {
      readonly kind: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly retryAfterMs: number | undefined;
      readonly nowMs: number;
      /** Jitter, at least 0 and below 1. */
      readonly random: number;
    }
  /** An event was taken or a chunk acknowledged. */
  | { readonly kind: "progress"; readonly nowMs: number }
  /** The connection works, though nothing has moved yet: delays stay, the clock for giving up starts anew. */
  | { readonly kind: "welcomed"; readonly nowMs: number }
  /** Something says that it may work now: as soon as budget and server allow. */
  | { readonly kind: "wake"; readonly nowMs: number };

export type Effect =
  | { readonly kind: "connect"; readonly atMs: number }
  | { readonly kind: "ask"; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "give_up"; readonly code: ErrorCode; readonly message: string };

type Step = readonly [State, readonly Effect[]];

export function init(options: Options, nowMs: number): State {
  return {
    options,
    failures: 0,
    budget: budget.init(options.budget, nowMs),
    progressMs: nowMs,
    notBeforeMs: nowMs,
    asked: false,
  };
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "progress":
      return [{ ...state, failures: 0, progressMs: input.nowMs }, []];
    case "welcomed":
      return [{ ...state, progressMs: input.nowMs, asked: false }, []];
    case "wake":
      return wake(state, input.nowMs);
    case "failed":
      return failed(state, input);
    default:
      return unreachable(input);
  }
}

function failed(state: State, failure: Extract<Input, { kind: "failed" }>): Step {
  assert(failure.random >= 0 && failure.random < 1, "jitter lies within 0 and 1");
  const { code, message, nowMs } = failure;
  const giveUp: Effect = { kind: "give_up", code, message };
  switch (REMEDY_OF[code]) {
    case "stop":
    case "restart":
      return [state, [giveUp]];
    case "ask":
      return state.asked ? [state, [giveUp]] : [{ ...state, asked: true }, [{ kind: "ask", code, message }]];
    case "reconnect":
    case "retry": {
      // A machine that slept for hours deserves a few tries before the time counts against it.
      const isOver = nowMs - state.progressMs > state.options.giveUpAfterMs && state.failures >= FAILURES_MIN;
      if (isOver) return [state, [giveUp]];
      const [left, { waitMs }] = budget.spend(state.budget, nowMs);
      const bound = backoffBoundMs(state.options, state.failures);
      const notBeforeMs = nowMs + Math.max(waitMs, failure.retryAfterMs ?? 0);
      const atMs = Math.ceil(notBeforeMs + failure.random * bound);
      return [
        { ...state, failures: state.failures + 1, budget: left, notBeforeMs },
        [{ kind: "connect", atMs }],
      ];
    }
  }
}

/** An early attempt costs a token like any other; without one it has to wait for it. */
function wake(state: State, nowMs: number): Step {
  if (nowMs < state.notBeforeMs) return [state, [{ kind: "connect", atMs: state.notBeforeMs }]];
  const [left, { waitMs }] = budget.spend(state.budget, nowMs);
  const notBeforeMs = nowMs + waitMs;
  return [{ ...state, budget: left, notBeforeMs }, [{ kind: "connect", atMs: notBeforeMs }]];
}

/** The upper end of the jitter after so many failures in a row. */
export function backoffBoundMs(options: Options, failures: number): number {
  return Math.min(options.capMs, Math.ceil(options.baseMs * GROWTH ** Math.min(failures, 60)));
}
