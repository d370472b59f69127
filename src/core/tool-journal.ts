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
 * only move forward (C1 to C7).
 */
import { assert, unreachable } from "./assert.ts";

export type Phase = "received" | "approved" | "started" | "done" | "acked";

/** What becomes of an exec that is not, or not again, carried out here. */
export type OwnOutcome = "unknown" | "denied" | "aborted";

export interface Entry {
  readonly execId: string;
  readonly eventId: number;
  readonly argsHash: string;
  readonly repeatable: boolean;
  readonly needsApproval: boolean;
  /** The last phase that is on disk; undefined while `received` is being written. */
  readonly phase: Phase | undefined;
  /** The approval's own end; an approval that ran out is asked for again (C7). */
  readonly approvedUntilMs: number;
  /** Somebody in this process works on it: it is written, asked for, run or reported. */
  readonly inHand: boolean;
  /** The seqno of the chunk that carries the result. */
  readonly resultSeqno: number | undefined;
}

export interface State {
  readonly entries: ReadonlyMap<string, Entry>;
  /** Set while this client is attached as the writer: only then may it act (D2). */
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
      readonly phase: "received" | "approved" | "started";
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
  /** The stream is aborted: nothing starts any more, what runs is stopped. */
  | { readonly kind: "aborted" };

export type Effect =
  | { readonly kind: "record"; readonly execId: string; readonly phase: "received" | "approved" | "started" }
  | { readonly kind: "ask"; readonly execId: string }
  | { readonly kind: "run"; readonly execId: string }
  | { readonly kind: "cancel"; readonly execId: string }
  /** A process group of the run before the crash may still be alive. */
  | { readonly kind: "stop_leftover"; readonly execId: string }
  | { readonly kind: "report"; readonly execId: string; readonly outcome: OwnOutcome }
  /** The same exec id came with other arguments (C5). */
  | { readonly kind: "conflict"; readonly execId: string; readonly argsHash: string };

export function init(recovered: Iterable<Entry>): State {
  const entries = new Map([...recovered].map((entry) => [entry.execId, entry]));
  return { entries, mayAct: false, aborted: false, sinceEvent: 0 };
}

export function step(state: State, input: Input): readonly [State, readonly Effect[]] {
  switch (input.kind) {
    case "requested":
      return requested(state, input);
    case "recorded":
      return recorded(state, input.execId, input.phase, input.nowMs);
    case "approved": {
      const entry = entryOf(state, input.execId);
      if (entry.argsHash !== input.argsHash || entry.phase !== "received") return [state, []];
      const approved = put(state, { ...entry, approvedUntilMs: input.untilMs });
      return [approved, [{ kind: "record", execId: entry.execId, phase: "approved" }]];
    }
    case "denied": {
      const entry = entryOf(state, input.execId);
      if (entry.phase !== "received") return [state, []];
      return [state, [{ kind: "report", execId: entry.execId, outcome: "denied" }]];
    }
    case "answered": {
      const entry = entryOf(state, input.execId);
      assert(entry.resultSeqno === undefined, "an exec has one result");
      return [put(state, { ...entry, phase: "done", resultSeqno: input.seqno, inHand: false }), []];
    }
    case "acked":
      return [acked(state, input.nextSeqno), []];
    case "attached":
      return attached({ ...state, mayAct: true, sinceEvent: input.sinceEvent }, input.nowMs);
    case "aborted": {
      const running = [...state.entries.values()].filter(
        (entry) => entry.phase === "started" && entry.inHand,
      );
      const cancels = running.map(({ execId }): Effect => ({ kind: "cancel", execId }));
      return [{ ...state, aborted: true }, state.aborted ? [] : cancels];
    }
    default:
      return unreachable(input);
  }
}

/** The execs that somebody here is carrying out: what a client's heartbeat names. */
export function runningExecIds(state: State): readonly string[] {
  return [...state.entries.values()].filter(isRunning).map((entry) => entry.execId);
}

/** Whether the entry can go: its result is acknowledged, and the caller knows that the stream ended (C6). */
export function isSettled(state: State): boolean {
  return [...state.entries.values()].every((entry) => entry.phase === "acked");
}

function requested(
  state: State,
  input: Extract<Input, { kind: "requested" }>,
): readonly [State, readonly Effect[]] {
  const { kind: _, ...request } = input;
  const known = state.entries.get(request.execId);
  if (known !== undefined) {
    if (known.argsHash === request.argsHash) return [state, []];
    return [state, [{ kind: "conflict", execId: request.execId, argsHash: request.argsHash }]];
  }
  // An exec from before this writer's time is answered for us, as unknown (D2).
  if (request.eventId <= state.sinceEvent) return [state, []];
  const entry: Entry = {
    ...request,
    phase: undefined,
    approvedUntilMs: 0,
    inHand: true,
    resultSeqno: undefined,
  };
  return [put(state, entry), [{ kind: "record", execId: request.execId, phase: "received" }]];
}

function recorded(
  state: State,
  execId: string,
  phase: Phase,
  nowMs: number,
): readonly [State, readonly Effect[]] {
  const entry = { ...entryOf(state, execId), phase };
  const written = put(state, entry);
  if (phase === "started") return run(written, entry);
  return proceed(written, entry, nowMs);
}

function run(state: State, entry: Entry): readonly [State, readonly Effect[]] {
  // The abort came while `started` was being written: it has not run, so that is what we say.
  if (state.aborted) return [state, [{ kind: "report", execId: entry.execId, outcome: "aborted" }]];
  return [state, [{ kind: "run", execId: entry.execId }]];
}

/** The next thing for an exec that has not started. */
function proceed(state: State, entry: Entry, nowMs: number): readonly [State, readonly Effect[]] {
  const { execId } = entry;
  if (!state.mayAct) return [put(state, { ...entry, inHand: false }), []];
  const taken = put(state, { ...entry, inHand: true });
  if (state.aborted) return [taken, [{ kind: "report", execId, outcome: "aborted" }]];
  const isApproved = !entry.needsApproval || (entry.phase === "approved" && nowMs < entry.approvedUntilMs);
  if (isApproved) return [taken, [{ kind: "record", execId, phase: "started" }]];
  return [put(taken, { ...entry, phase: "received", inHand: true }), [{ kind: "ask", execId }]];
}

/** After a welcome: take up whatever nobody here works on. After a crash that is everything. */
function attached(state: State, nowMs: number): readonly [State, readonly Effect[]] {
  let next = state;
  const effects: Effect[] = [];
  for (const entry of state.entries.values()) {
    if (entry.inHand || entry.eventId <= state.sinceEvent) continue;
    const [moved, more] = takeUp(next, entry, nowMs);
    next = moved;
    effects.push(...more);
  }
  return [next, effects];
}

function takeUp(state: State, entry: Entry, nowMs: number): readonly [State, readonly Effect[]] {
  const { execId } = entry;
  switch (entry.phase) {
    case "received":
    case "approved":
      return proceed(state, entry, nowMs);
    case "started": {
      const taken = put(state, { ...entry, inHand: true });
      const stop: Effect = { kind: "stop_leftover", execId };
      if (!entry.repeatable) return [taken, [stop, { kind: "report", execId, outcome: "unknown" }]];
      return [taken, [stop, { kind: "record", execId, phase: "started" }]];
    }
    case "done":
    case "acked":
    case undefined:
      return [state, []];
  }
}

function acked(state: State, nextSeqno: number): State {
  let next = state;
  for (const entry of state.entries.values()) {
    const isAcked =
      entry.phase === "done" && entry.resultSeqno !== undefined && entry.resultSeqno < nextSeqno;
    if (isAcked) next = put(next, { ...entry, phase: "acked" });
  }
  return next;
}

function isRunning(entry: Entry): boolean {
  return entry.phase === "started" && entry.inHand;
}

function entryOf(state: State, execId: string): Entry {
  const entry = state.entries.get(execId);
  assert(entry !== undefined, "an exec is known before anything happens to it");
  return entry;
}

function put(state: State, entry: Entry): State {
  return { ...state, entries: new Map(state.entries).set(entry.execId, entry) };
}
