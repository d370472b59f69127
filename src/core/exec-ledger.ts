/**
 * The server's book of a turn's steps and execs, kept from the event log and the client's chunks.
 *
 * It is fed the same way live and after a crash: one input per logged event, per accepted result,
 * per takeover, in log order. So a restarted host knows what was finished (not run again), what was
 * asked (not asked again) and what was cut off (the step is restarted, and says so).
 *
 * Execs are issued only once the model's output of their step is complete in the log: such a step
 * never calls the model again, so no restart can roll back an effect (C0).
 *
 * Invariant: one terminal outcome per exec id; a second one is ignored and counted (A8, C1).
 */
import { assert, unreachable } from "./assert.ts";

/** A step restarts so often, then the turn fails (F1). */
export const STEP_RESTARTS_MAX = 3;

export type ExecStage = "planned" | "issued" | "answered" | "unknown";

export interface State {
  /** Steps begun so far; a restarted step counts once. */
  readonly steps: number;
  /** The step under way: its model output is not complete yet. */
  readonly open: { readonly restarts: number; readonly sinceEvent: number } | undefined;
  readonly execs: ReadonlyMap<string, { readonly stage: ExecStage; readonly eventId: number }>;
  /** Results that came for an exec that already had its outcome. */
  readonly ignored: number;
}

export type Input =
  | { readonly kind: "step_started"; readonly eventId: number }
  | { readonly kind: "step_restarted"; readonly eventId: number }
  /** The model's output is complete; these are the execs it asks for, in order. */
  | { readonly kind: "step_completed"; readonly execIds: readonly string[] }
  | { readonly kind: "exec_issued"; readonly execId: string; readonly eventId: number }
  /** A client's terminal result. */
  | { readonly kind: "result"; readonly execId: string }
  /** Another client writes from here on; what was issued up to this event and is unanswered will stay so (D2). */
  | { readonly kind: "takeover"; readonly sinceEvent: number }
  /** The logs have been read to their end after a restart: what is to be done? */
  | { readonly kind: "recovered" };

export type Effect =
  | { readonly kind: "issue"; readonly execId: string }
  /** The exec has its outcome; `counted` is false for a second one, which changes nothing. */
  | { readonly kind: "settled"; readonly execId: string; readonly outcome: "answered" | "unknown" }
  | { readonly kind: "restart_step"; readonly rollbackTo: number }
  | { readonly kind: "fail_turn"; readonly message: string };

export function init(): State {
  return { steps: 0, open: undefined, execs: new Map(), ignored: 0 };
}

/** True when every exec has its outcome, so that the next step may begin. */
export function isReadyForStep(state: State): boolean {
  return state.open === undefined && [...state.execs.values()].every(isTerminal);
}

export function step(state: State, input: Input): readonly [State, readonly Effect[]] {
  switch (input.kind) {
    case "step_started":
      assert(isReadyForStep(state), "a step begins when nothing is open");
      return [{ ...state, steps: state.steps + 1, open: { restarts: 0, sinceEvent: input.eventId } }, []];
    case "step_restarted": {
      assert(state.open !== undefined, "only an unfinished step is restarted");
      return [{ ...state, open: { restarts: state.open.restarts + 1, sinceEvent: input.eventId } }, []];
    }
    case "step_completed": {
      assert(state.open !== undefined, "only an open step is completed");
      const execs = new Map(state.execs);
      for (const execId of input.execIds) {
        assert(!execs.has(execId), "an exec id is minted once");
        execs.set(execId, { stage: "planned", eventId: 0 });
      }
      const effects = input.execIds.map((execId): Effect => ({ kind: "issue", execId }));
      return [{ ...state, open: undefined, execs }, effects];
    }
    case "exec_issued":
      assert(state.execs.get(input.execId)?.stage === "planned", "an exec is issued once, after its step");
      return [put(state, input.execId, "issued", input.eventId), []];
    case "result":
      return settle(state, input.execId, "answered");
    case "takeover":
      return takeover(state, input.sinceEvent);
    case "recovered":
      return recovered(state);
    default:
      return unreachable(input);
  }
}

function settle(
  state: State,
  execId: string,
  outcome: "answered" | "unknown",
): readonly [State, readonly Effect[]] {
  const exec = state.execs.get(execId);
  if (exec?.stage !== "issued") return [{ ...state, ignored: state.ignored + 1 }, []];
  return [put(state, execId, outcome, exec.eventId), [{ kind: "settled", execId, outcome }]];
}

function takeover(state: State, sinceEvent: number): readonly [State, readonly Effect[]] {
  let next = state;
  const effects: Effect[] = [];
  for (const [execId, exec] of state.execs) {
    if (exec.stage !== "issued" || exec.eventId > sinceEvent) continue;
    const [settled, more] = settle(next, execId, "unknown");
    next = settled;
    effects.push(...more);
  }
  return [next, effects];
}

function recovered(state: State): readonly [State, readonly Effect[]] {
  const planned = [...state.execs].filter(([, exec]) => exec.stage === "planned");
  const issue = planned.map(([execId]): Effect => ({ kind: "issue", execId }));
  if (state.open === undefined) return [state, issue];
  if (state.open.restarts >= STEP_RESTARTS_MAX) {
    return [state, [{ kind: "fail_turn", message: `a step was cut off ${STEP_RESTARTS_MAX + 1} times` }]];
  }
  return [state, [{ kind: "restart_step", rollbackTo: state.open.sinceEvent }]];
}

function isTerminal(exec: { readonly stage: ExecStage }): boolean {
  return exec.stage === "answered" || exec.stage === "unknown";
}

function put(state: State, execId: string, stage: ExecStage, eventId: number): State {
  return { ...state, execs: new Map(state.execs).set(execId, { stage, eventId }) };
}
