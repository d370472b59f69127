/**
 * What a client knows about each exec: received, approved, started, done, acked.
 *
 * Each phase is on disk before the next begins, and a tool runs only after `started` is, so after a
 * crash the phase tells what can have happened. Where it cannot tell (started, not done) the tool is
 * not run again unless it is repeatable: the outcome is reported as unknown (the table of C2).
 * Requests are known by exec id, never by the event that carried them: delivered again, they join
 * what is there (B3, C3).
 *
 * Invariant: at most one run per exec that is not repeatable, exactly one result per exec, phases
 * only move forward (C1 to C7). What is in hand decides which inputs count: a second click, a late
 * denial, a repeated record find the hand elsewhere and change nothing.
 *
 * Only the execs in flight are copied at a change. Those that are over are kept to be known again, in a table that only grows:
 * a turn has thousands of them.
 */
import { assert, unreachable } from "../protocol/assert.ts";

export type Phase = "received" | "approved" | "started" | "done" | "acked";
type RecordedPhase = Extract<Phase, "received" | "approved" | "started">;

/** What becomes of an exec that is not, or not again, carried out here. */
export type OwnOutcome = "unknown" | "denied" | "aborted";

/** What this process does about an exec right now. After a crash every hand is empty. */
type Hand = "empty" | "writing" | "asking" | "running" | "reporting";

export interface Entry {
  readonly execId: string;
  readonly eventId: number;
  readonly argsHash: string;
  readonly repeatable: boolean;
  readonly needsApproval: boolean;
  /** The last phase that was reached; undefined while `received` is being written. */
  readonly phase: Phase | undefined;
  /** The approval's own end; one that ran out is asked for again (C7). */
  readonly approvedUntilMs: number;
  readonly hand: Hand;
  /** A run of an earlier process may have taken effect. */
  readonly mayHaveRun: boolean;
  /** The server has taken the request back; it is still answered. */
  readonly isAborted: boolean;
  /** The seqno of the chunk that carries the result. */
  readonly resultSeqno: number | undefined;
}

/** Of an exec that was only asked for. */
export const UNTOUCHED = {
  approvedUntilMs: 0,
  hand: "empty",
  mayHaveRun: false,
  isAborted: false,
  resultSeqno: undefined,
} as const satisfies Partial<Entry>;

export interface State {
  /** The execs whose result is not acknowledged yet. */
  readonly entries: ReadonlyMap<string, Entry>;
  /** The others, in the order of their acks: the first `ackedCount` of a table that states which follow each other share. */
  readonly acked: Map<string, Entry>;
  readonly ackedCount: number;
  /** Set once this client has been welcomed as the writer: only then may it act (D2). */
  readonly mayAct: boolean;
  readonly aborted: boolean;
  /** Execs up to this event were another writer's. */
  readonly sinceEvent: number;
}

export type Input =
  | {
      readonly kind: "requested";
      readonly execId: string;
      readonly eventId: number;
      readonly argsHash: string;
      readonly repeatable: boolean;
      readonly needsApproval: boolean;
    }
  /** A phase is on disk. */
  | {
      readonly kind: "recorded";
      readonly execId: string;
      readonly phase: RecordedPhase;
      readonly nowMs: number;
    }
  | {
      readonly kind: "approved";
      readonly execId: string;
      readonly argsHash: string;
      readonly untilMs: number;
    }
  | { readonly kind: "denied"; readonly execId: string }
  /** The result, of a run or of our own, has its seqno; the chunk and `done` are one record. */
  | { readonly kind: "answered"; readonly execId: string; readonly seqno: number }
  | { readonly kind: "acked"; readonly nextSeqno: number }
  | { readonly kind: "attached"; readonly sinceEvent: number; readonly nowMs: number }
  /** The server takes one request back. */
  | { readonly kind: "exec_aborted"; readonly execId: string }
  /** The stream is aborted: nothing starts any more, what runs is stopped, what waits for an approval is answered. */
  | { readonly kind: "aborted" }
  /** The stream is over for this client, or the client leaves it: runs are stopped, questions closed, nothing is answered. */
  | { readonly kind: "let_go" };

export type Effect =
  | { readonly kind: "record"; readonly execId: string; readonly phase: RecordedPhase }
  /** That the request was taken back: a snapshot may pass the event that said so, and a restart must still know (C4). */
  | { readonly kind: "record_abort"; readonly execId: string }
  | { readonly kind: "ask"; readonly execId: string }
  | { readonly kind: "run"; readonly execId: string }
  | { readonly kind: "cancel"; readonly execId: string }
  /** A process group of the run before the crash may still be alive. */
  | { readonly kind: "stop_leftover"; readonly execId: string }
  | { readonly kind: "report"; readonly execId: string; readonly outcome: OwnOutcome }
  /** The same exec id came with other arguments (C5). */
  | { readonly kind: "conflict"; readonly execId: string; readonly argsHash: string };

type Step = readonly [State, readonly Effect[]];

export function init(recovered: Iterable<Entry>, aborted: boolean): State {
  const entries = new Map<string, Entry>();
  const acked = new Map<string, Entry>();
  for (const entry of recovered) (entry.phase === "acked" ? acked : entries).set(entry.execId, entry);
  return { entries, acked, ackedCount: acked.size, mayAct: false, aborted, sinceEvent: 0 };
}

/** What is known of an exec, whether or not it is over. */
export function find(state: State, execId: string): Entry | undefined {
  return state.entries.get(execId) ?? ackedOf(state).get(execId);
}

/** A state that another one has grown out of sees what it knew. */
function ackedOf({ acked, ackedCount }: State): Map<string, Entry> {
  return acked.size === ackedCount ? acked : new Map([...acked].slice(0, ackedCount));
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "requested":
      return requested(state, input);
    case "recorded":
      return recorded(state, input.execId, input.phase, input.nowMs);
    case "approved": {
      const entry = state.entries.get(input.execId);
      if (entry?.hand !== "asking" || entry.argsHash !== input.argsHash) return [state, []];
      return write(state, { ...entry, approvedUntilMs: input.untilMs }, "approved");
    }
    case "denied": {
      const entry = state.entries.get(input.execId);
      return entry?.hand === "asking" ? report(state, entry, "denied") : [state, []];
    }
    case "answered": {
      const entry = entryOf(state, input.execId);
      assert(entry.hand === "running" || entry.hand === "reporting", "a result comes from a run or a report");
      return [put(state, { ...entry, phase: "done", resultSeqno: input.seqno, hand: "empty" }), []];
    }
    case "acked":
      return [acked(state, input.nextSeqno), []];
    case "attached":
      return attached({ ...state, mayAct: true, sinceEvent: input.sinceEvent }, input.nowMs);
    case "exec_aborted":
      return execAborted(state, input.execId);
    case "aborted":
      return aborted(state);
    case "let_go":
      return [{ ...state, aborted: true }, state.aborted ? [] : cancels(state, ["running", "asking"])];
    default:
      return unreachable(input);
  }
}

/** The execs that this process deals with: being written down, waiting for an approval, running, or about to be answered. */
export function execIdsInHand(state: State): readonly string[] {
  return [...state.entries.values()].filter(({ hand }) => hand !== "empty").map(({ execId }) => execId);
}

/** Those that this process deals with in one of these ways are stopped. */
function cancels(state: State, hands: readonly Hand[]): readonly Effect[] {
  const held = [...state.entries.values()].filter(({ hand }) => hands.includes(hand));
  return held.map(({ execId }): Effect => ({ kind: "cancel", execId }));
}

/** Whether an exec of this writer still has no result. */
export function hasOpen(state: State): boolean {
  for (const entry of state.entries.values())
    if (entry.resultSeqno === undefined && entry.eventId > state.sinceEvent) return true;
  return false;
}

function requested(state: State, input: Extract<Input, { kind: "requested" }>): Step {
  const { kind: _, ...request } = input;
  const known = find(state, request.execId);
  if (known !== undefined) {
    if (known.argsHash === request.argsHash) return [state, []];
    return [state, [{ kind: "conflict", execId: request.execId, argsHash: request.argsHash }]];
  }
  // An exec from before this writer's time is answered for us, as unknown (D2).
  if (request.eventId <= state.sinceEvent) return [state, []];
  return write(state, { ...request, ...UNTOUCHED, phase: undefined }, "received");
}

function recorded(state: State, execId: string, phase: RecordedPhase, nowMs: number): Step {
  const entry = { ...entryOf(state, execId), phase };
  assert(
    entry.hand === "writing" && entry.resultSeqno === undefined,
    "a record that was asked for is recorded",
  );
  if (phase !== "started") return proceed(state, entry, nowMs);
  // The abort came while `started` was being written: this process has not run it.
  if (state.aborted || entry.isAborted) return report(state, entry, entry.mayHaveRun ? "unknown" : "aborted");
  return [put(state, { ...entry, hand: "running" }), [{ kind: "run", execId }]];
}

/** The next thing for an exec that has not started. */
function proceed(state: State, entry: Entry, nowMs: number): Step {
  if (!state.mayAct) return [put(state, { ...entry, hand: "empty" }), []];
  if (state.aborted || entry.isAborted) return report(state, entry, "aborted");
  const isApproved = entry.phase === "approved" && nowMs < entry.approvedUntilMs;
  if (isApproved || !entry.needsApproval) return write(state, entry, "started");
  return [put(state, { ...entry, hand: "asking" }), [{ kind: "ask", execId: entry.execId }]];
}

/** After a welcome: take up every exec that is not worked on here. After a crash that is everything. */
function attached(state: State, nowMs: number): Step {
  let next = state;
  const effects: Effect[] = [];
  for (const entry of state.entries.values()) {
    if (entry.hand !== "empty" || entry.eventId <= state.sinceEvent) continue;
    const [moved, more] = takeUp(next, entry, nowMs);
    next = moved;
    effects.push(...more);
  }
  return [next, effects];
}

function takeUp(state: State, entry: Entry, nowMs: number): Step {
  switch (entry.phase) {
    case "received":
    case "approved":
      return proceed(state, entry, nowMs);
    case "started": {
      // An approval is used once (C7), so a tool that needs one does not run a second time under it.
      const isAborted = state.aborted || entry.isAborted;
      const mayRunAgain = entry.repeatable && !entry.needsApproval && !isAborted;
      const ran = { ...entry, mayHaveRun: true };
      const [next, effects] = mayRunAgain ? write(state, ran, "started") : report(state, ran, "unknown");
      return [next, [{ kind: "stop_leftover", execId: entry.execId }, ...effects]];
    }
    case "done":
    case "acked":
    case undefined:
      return [state, []];
  }
}

/** What runs is stopped and answers for itself; what waits for an approval is answered here, and so its question is closed. */
function aborted(state: State): Step {
  if (state.aborted) return [state, []];
  let next: State = { ...state, aborted: true };
  const effects = [...cancels(state, ["running"])];
  for (const entry of state.entries.values()) {
    if (entry.hand !== "asking") continue;
    const [moved, more] = report(next, entry, "aborted");
    next = moved;
    effects.push(...more);
  }
  return [next, effects];
}

/** What runs is stopped and answers for itself; what has not begun is answered here, once no record of it is being written. */
function execAborted(state: State, execId: string): Step {
  const entry = find(state, execId);
  const isOver = entry?.resultSeqno !== undefined || entry?.hand === "reporting";
  if (entry === undefined || entry.isAborted || isOver) return [state, []];
  const stopped = { ...entry, isAborted: true };
  const recorded: Effect = { kind: "record_abort", execId };
  if (entry.hand === "running") return [put(state, stopped), [recorded, { kind: "cancel", execId }]];
  if (entry.hand !== "asking") return [put(state, stopped), [recorded]];
  const [next, effects] = report(state, stopped, "aborted");
  return [next, [recorded, ...effects]];
}

function write(state: State, entry: Entry, phase: RecordedPhase): Step {
  return [put(state, { ...entry, hand: "writing" }), [{ kind: "record", execId: entry.execId, phase }]];
}

function report(state: State, entry: Entry, outcome: OwnOutcome): Step {
  return [put(state, { ...entry, hand: "reporting" }), [{ kind: "report", execId: entry.execId, outcome }]];
}

function acked(state: State, nextSeqno: number): State {
  const isAcked = ({ phase, resultSeqno }: Entry): boolean =>
    phase === "done" && resultSeqno !== undefined && resultSeqno < nextSeqno;
  const over = [...state.entries.values()].filter(isAcked);
  if (over.length === 0) return state;
  const acked = ackedOf(state);
  for (const entry of over) acked.set(entry.execId, { ...entry, phase: "acked" });
  const entries = new Map([...state.entries].filter(([, entry]) => !isAcked(entry)));
  return { ...state, entries, acked, ackedCount: acked.size };
}

function entryOf(state: State, execId: string): Entry {
  const entry = state.entries.get(execId);
  assert(entry !== undefined, "an exec is known before anything happens to it");
  return entry;
}

function put(state: State, entry: Entry): State {
  return { ...state, entries: new Map(state.entries).set(entry.execId, entry) };
}
