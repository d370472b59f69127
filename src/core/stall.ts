/**
 * Three clocks that notice when a stream stands still although nobody said so.
 *
 * - *silence*: nothing at all was received; the connection is likely dead without knowing it.
 * - *no progress*: heartbeats come, but no event and no ack, while the server owes us something.
 * - *unanswered*: the server asked us something and nobody here has taken it up.
 *
 * Each first probes and reports what is stuck, then reconnects. Heartbeats feed the first clock
 * only: they are never progress (B7). A request that somebody works on is not stuck, however long
 * it takes.
 *
 * Invariant: while attached, every clock that runs out leads to an action (F4).
 */
import { unreachable } from "./assert.ts";

export interface Options {
  /** How many missed heartbeats are silence. */
  readonly heartbeatsMissedMax: number;
  /** Models think long; a reconnect is cheap but not free. */
  readonly progressMs: number;
  readonly unansweredMs: number;
}

export const DEFAULTS: Options = { heartbeatsMissedMax: 3, progressMs: 60_000, unansweredMs: 30_000 };

export type Clock = "silence" | "no_progress" | "unanswered";

export interface State {
  readonly options: Options;
  readonly attached: boolean;
  readonly silenceMs: number;
  readonly heardMs: number;
  readonly progressMs: number;
  /** The server owes an ack or an event. */
  readonly owed: boolean;
  /** What the server asked and nobody has taken up, oldest first. */
  readonly unanswered: readonly Request[];
  /** The clock that ran out once and has been reported. */
  readonly stalled: Clock | undefined;
  /** How often a stall was reported, for the counters. */
  readonly stalls: number;
}

export interface Request {
  readonly id: string;
  readonly sinceMs: number;
}

export type Input =
  | { readonly kind: "attached"; readonly heartbeatIntervalMs: number; readonly nowMs: number }
  | { readonly kind: "detached" }
  /** Any frame. */
  | { readonly kind: "heard"; readonly nowMs: number }
  /** An event taken or a chunk acknowledged. */
  | { readonly kind: "progress"; readonly nowMs: number }
  | { readonly kind: "owed"; readonly owed: boolean; readonly nowMs: number }
  | { readonly kind: "asked"; readonly id: string; readonly nowMs: number }
  | { readonly kind: "taken_up"; readonly id: string }
  | { readonly kind: "tick"; readonly nowMs: number };

export type Effect =
  | { readonly kind: "probe" }
  | { readonly kind: "report"; readonly clock: Clock; readonly stuck: string }
  | { readonly kind: "recovered" }
  | { readonly kind: "reconnect"; readonly clock: Clock; readonly stuck: string };

export function init(options: Options): State {
  return {
    options,
    attached: false,
    silenceMs: Number.POSITIVE_INFINITY,
    heardMs: 0,
    progressMs: 0,
    owed: false,
    unanswered: [],
    stalled: undefined,
    stalls: 0,
  };
}

export function step(state: State, input: Input): readonly [State, readonly Effect[]] {
  switch (input.kind) {
    case "attached": {
      const silenceMs = input.heartbeatIntervalMs * state.options.heartbeatsMissedMax;
      const { nowMs } = input;
      const unanswered = state.unanswered.map((request) => ({ ...request, sinceMs: nowMs }));
      return recovered({
        ...state,
        attached: true,
        silenceMs,
        heardMs: nowMs,
        progressMs: nowMs,
        unanswered,
      });
    }
    case "detached":
      return [{ ...state, attached: false }, []];
    case "heard": {
      const heard = { ...state, heardMs: input.nowMs };
      return state.stalled === "silence" ? recovered(heard) : [heard, []];
    }
    case "progress": {
      const moved = { ...state, heardMs: input.nowMs, progressMs: input.nowMs };
      return state.stalled === "unanswered" ? [moved, []] : recovered(moved);
    }
    case "owed": {
      if (input.owed === state.owed) return [state, []];
      // The clock starts when something becomes owed, not when the last thing happened.
      return [{ ...state, owed: input.owed, progressMs: input.nowMs }, []];
    }
    case "asked": {
      if (state.unanswered.some((request) => request.id === input.id)) return [state, []];
      return [{ ...state, unanswered: [...state.unanswered, { id: input.id, sinceMs: input.nowMs }] }, []];
    }
    case "taken_up":
      return [{ ...state, unanswered: state.unanswered.filter((request) => request.id !== input.id) }, []];
    case "tick":
      return state.attached ? tick(state, input.nowMs) : [state, []];
    default:
      return unreachable(input);
  }
}

function tick(state: State, nowMs: number): readonly [State, readonly Effect[]] {
  const overdue = findOverdue(state, nowMs);
  if (overdue === undefined) return recovered(state);
  const { clock, stuck, limitMs, sinceMs } = overdue;
  if (nowMs - sinceMs > 2 * limitMs) {
    return [{ ...state, attached: false, stalled: clock }, [{ kind: "reconnect", clock, stuck }]];
  }
  if (state.stalled === clock) return [state, []];
  const reported = { ...state, stalled: clock, stalls: state.stalls + 1 };
  return [reported, [{ kind: "report", clock, stuck }, { kind: "probe" }]];
}

function findOverdue(state: State, nowMs: number) {
  const oldest = state.unanswered[0];
  const clocks = [
    { clock: "silence", stuck: "the connection", limitMs: state.silenceMs, sinceMs: state.heardMs },
    ...(state.owed
      ? [
          {
            clock: "no_progress",
            stuck: "the answer",
            limitMs: state.options.progressMs,
            sinceMs: state.progressMs,
          } as const,
        ]
      : []),
    ...(oldest === undefined
      ? []
      : [
          {
            clock: "unanswered",
            stuck: oldest.id,
            limitMs: state.options.unansweredMs,
            sinceMs: oldest.sinceMs,
          } as const,
        ]),
  ] as const;
  return clocks.find(({ sinceMs, limitMs }) => nowMs - sinceMs > limitMs);
}

function recovered(state: State): readonly [State, readonly Effect[]] {
  if (state.stalled === undefined) return [state, []];
  return [{ ...state, stalled: undefined }, [{ kind: "recovered" }]];
}
