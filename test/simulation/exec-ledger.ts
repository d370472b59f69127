/**
 * The server's book of a turn's steps and execs, kept from the event log and the client's chunks.
 *
 * The two logs have no common order, so the book does not need one: whether a result counts follows
 * from numbers alone (the exec's event id, the result's seqno, where takeovers happened). A host
 * that lives through a turn and one that reads it back afterwards, chunks first, come to the same
 * book: what was finished is not run again, what was asked is not asked again, and a step that was
 * cut off is restarted, and says so.
 *
 * Execs are issued only once the model's output of their step is complete in the log: such a step
 * never calls the model again, so no restart can roll back an effect (C0).
 *
 * Invariant: one terminal outcome per exec id; a second one is ignored and counted (A8, C1).
 */
import { assert, unreachable } from "../../src/core/assert.ts";

/** A step restarts so often, then the turn fails (F1). */
export const STEP_RESTARTS_MAX = 3;

/**
 * Results of so many exec ids that are not in the book are kept: those that overtook their exec, and all of them while a host
 * reads chunks back before events. A client that invents ids gets no further (F2).
 */
export const UNKNOWN_RESULTS_MAX = 4_096;

export type ExecStage = "planned" | "issued" | "answered" | "unknown";

export interface State {
  /** Steps begun so far; a restarted step counts once. */
  readonly steps: number;
  /** The step under way: its model output is not complete yet. */
  readonly open: { readonly restarts: number; readonly sinceEvent: number } | undefined;
  readonly execs: ReadonlyMap<string, { readonly stage: ExecStage; readonly eventId: number }>;
  /** The first result that came for each exec id, by seqno. */
  readonly results: ReadonlyMap<string, number>;
  readonly takeovers: readonly Takeover[];
  /** Results that came too late, twice, or for too many ids that nobody has heard of. */
  readonly ignored: number;
}

/** Execs issued up to `sinceEvent` are answered before `sinceSeqno`, or never (D2). */
export interface Takeover {
  readonly sinceSeqno: number;
  readonly sinceEvent: number;
}

export type Input =
  | { readonly kind: "step_started"; readonly eventId: number }
  | { readonly kind: "step_restarted"; readonly eventId: number }
  /** The model's output asks for this exec. It may still be rolled back. */
  | { readonly kind: "exec_planned"; readonly execId: string }
  /** The model's output is complete. */
  | { readonly kind: "step_completed" }
  /**
   * The same tool call goes on with another exec now that `after` has its outcome: an edit reads, then writes. What is in the log
   * already is not asked again, so a restarted host may say it once more.
   */
  | { readonly kind: "exec_followed"; readonly execId: string; readonly after: string }
  /** `after` is set for one that follows another: then its request in the log is its only plan. */
  | {
      readonly kind: "exec_issued";
      readonly execId: string;
      readonly eventId: number;
      readonly after?: string | undefined;
    }
  /** A client's terminal result. */
  | { readonly kind: "result"; readonly execId: string; readonly seqno: number }
  | { readonly kind: "takeover"; readonly takeover: Takeover }
  /** The client has said everything: what it has not answered by then, it never will. */
  | { readonly kind: "closed"; readonly seqno: number }
  /** The provider broke off the model output of the open step: what is to be done? */
  | { readonly kind: "step_broken" }
  /** Both logs have been read to their end after a restart: what is to be done? */
  | { readonly kind: "recovered" };

export type Effect =
  | { readonly kind: "issue"; readonly execId: string }
  | { readonly kind: "settled"; readonly execId: string; readonly outcome: "answered" | "unknown" }
  | { readonly kind: "restart_step"; readonly rollbackTo: number }
  | { readonly kind: "fail_turn"; readonly message: string };

type Step = readonly [State, readonly Effect[]];

export function init(): State {
  return { steps: 0, open: undefined, execs: new Map(), results: new Map(), takeovers: [], ignored: 0 };
}

/** True when every exec has its outcome, so that the next step may begin. */
export function isReadyForStep(state: State): boolean {
  return state.open === undefined && [...state.execs.keys()].every((execId) => isTerminal(state, execId));
}

function isTerminal(state: State, execId: string): boolean {
  const stage = state.execs.get(execId)?.stage;
  return stage === "answered" || stage === "unknown";
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "step_started":
      assert(isReadyForStep(state), "a step begins when nothing is open");
      return [{ ...state, steps: state.steps + 1, open: { restarts: 0, sinceEvent: input.eventId } }, []];
    case "step_restarted": {
      assert(state.open !== undefined, "only an unfinished step is restarted");
      const execs = new Map([...state.execs].filter(([, exec]) => exec.stage !== "planned"));
      return [
        { ...state, execs, open: { restarts: state.open.restarts + 1, sinceEvent: input.eventId } },
        [],
      ];
    }
    case "exec_planned":
      assert(state.open !== undefined && !state.execs.has(input.execId), "an open step plans each exec once");
      return [put(state, input.execId, "planned", 0), []];
    case "step_completed":
      assert(state.open !== undefined, "only an open step is completed");
      return [{ ...state, open: undefined }, issuePlanned(state)];
    case "exec_followed":
      if (state.execs.has(input.execId)) return [state, []];
      assert(state.open === undefined, "an exec follows another when their step is complete");
      assert(isTerminal(state, input.after), "an exec follows one that has its outcome");
      return [put(state, input.execId, "planned", 0), [{ kind: "issue", execId: input.execId }]];
    case "exec_issued":
      assert(state.open === undefined, "an exec is issued when its step is complete");
      assert(isPlanned(state, input.execId, input.after), "an exec is issued once, as planned");
      return settle(put(state, input.execId, "issued", input.eventId), input.execId);
    case "result":
      return result(state, input.execId, input.seqno);
    case "takeover":
      return takeover(state, input.takeover);
    case "closed":
      return takeover(state, { sinceSeqno: input.seqno, sinceEvent: Number.MAX_SAFE_INTEGER });
    case "step_broken":
      assert(state.open !== undefined, "only an open step breaks");
      return cutOff(state, state.open);
    case "recovered":
      return recovered(state);
    default:
      return unreachable(input);
  }
}

/** Chunks may be read after events or before: whether `after` has its outcome by now says nothing then. */
function isPlanned(state: State, execId: string, after: string | undefined): boolean {
  const stage = state.execs.get(execId)?.stage;
  const isFollower = after !== undefined && state.execs.has(after);
  return stage === "planned" || (stage === undefined && isFollower);
}

function result(state: State, execId: string, seqno: number): Step {
  const isLate = state.results.has(execId) || isTerminal(state, execId);
  if (isLate || isInvented(state, execId)) return [{ ...state, ignored: state.ignored + 1 }, []];
  return settle({ ...state, results: new Map(state.results).set(execId, seqno) }, execId);
}

function isInvented(state: State, execId: string): boolean {
  if (state.execs.has(execId) || state.results.size < UNKNOWN_RESULTS_MAX) return false;
  const unknown = [...state.results.keys()].filter((id) => !state.execs.has(id));
  return unknown.length >= UNKNOWN_RESULTS_MAX;
}

function takeover(state: State, next: Takeover): Step {
  let settled: State = { ...state, takeovers: [...state.takeovers, next] };
  const effects: Effect[] = [];
  for (const execId of state.execs.keys()) {
    const [moved, more] = settle(settled, execId);
    settled = moved;
    effects.push(...more);
  }
  return [settled, effects];
}

/** Gives an issued exec its outcome, if its fate is known: from numbers, whatever came first. */
function settle(state: State, execId: string): Step {
  const exec = state.execs.get(execId);
  if (exec?.stage !== "issued") return [state, []];
  const seqno = state.results.get(execId);
  const end = state.takeovers.find(({ sinceEvent }) => sinceEvent >= exec.eventId);
  const isInTime = seqno !== undefined && (end === undefined || seqno < end.sinceSeqno);
  if (!isInTime && end === undefined) return [state, []];
  const outcome = isInTime ? "answered" : "unknown";
  const ignored = state.ignored + (seqno !== undefined && !isInTime ? 1 : 0);
  return [{ ...put(state, execId, outcome, exec.eventId), ignored }, [{ kind: "settled", execId, outcome }]];
}

function recovered(state: State): Step {
  if (state.open === undefined) return [state, issuePlanned(state)];
  return cutOff(state, state.open);
}

/** The step begins anew, whoever cut it off: a crash or its provider. */
function cutOff(state: State, { restarts, sinceEvent }: NonNullable<State["open"]>): Step {
  if (restarts >= STEP_RESTARTS_MAX) {
    return [state, [{ kind: "fail_turn", message: `a step was cut off ${STEP_RESTARTS_MAX + 1} times` }]];
  }
  return [state, [{ kind: "restart_step", rollbackTo: sinceEvent }]];
}

function issuePlanned(state: State): readonly Effect[] {
  const planned = [...state.execs].filter(([, exec]) => exec.stage === "planned");
  return planned.map(([execId]) => ({ kind: "issue", execId }));
}

function put(state: State, execId: string, stage: ExecStage, eventId: number): State {
  return { ...state, execs: new Map(state.execs).set(execId, { stage, eventId }) };
}
