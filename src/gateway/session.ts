/**
 * One session of the gateway: what it does, and what follows from each thing that happens to it. Pure: `sessions.ts` and
 * `session-driver.ts` carry the effects out.
 *
 * | at         | what it is                                          | left by                                                          |
 * | ---------- | --------------------------------------------------- | ---------------------------------------------------------------- |
 * | fresh      | its stream is being opened                          | `opened` to generating, `unopened` to gone                       |
 * | sleeping   | a start found its answer cut off; no stream is open | `wanted` to resuming, `end` and `clock` to ending, `leave` to gone |
 * | resting    | it waits for tool results; no stream is open        | `wanted` to resuming, `end` and `clock` to ending, `leave` to gone |
 * | resuming   | its stream is read back                             | `restarted` to generating, `paused`, `end`, `clock`, `lost`, `over` |
 * | generating | an answer is under way                              | `paused` to parked, finished or ending, `end`, `clock`, `over`   |
 * | parked     | it waits for tool results                           | `results` to generating, `rest`, `paused`, `end`, `clock`, `over` |
 * | finished   | its turn is complete                                | `over` to gone                                                   |
 * | ending     | its turn is being aborted, or failed                | `over` and `lost` to gone                                        |
 * | gone       | nothing of it runs here                             |                                                                  |
 *
 * `end` and `clock` lead to ending wherever no other state is named, `over` and `lost` to gone. `take` and `release` put a request in the hand of a
 * parked session, one at a time. Without a reader a clock runs: the grace period for an answer, the session's time for one that waits. One that has waited for some seconds
 * rests: its stream is let go, and a request wakes it as a start does (decision 180).
 *
 * Invariant: a session has its rows on the disk before a client can have a tool call of it, and ending removes them exactly once.
 */
import type { AnswerRef } from "./answer-ref.ts";
import { type AnswerDelta, answerLine, chain, levelled } from "./openai/index.ts";
import type { PendingCall, SessionRecord } from "./session-record.ts";

/** Which process took the request that the session answers. An earlier one may have died before all of it was in the stream. */
type Taken = "here" | "earlier";

interface Kept {
  readonly record: SessionRecord;
}

interface Open extends Kept {
  /** Responses that read the answer. */
  readonly readers: number;
}

export type State =
  | (Kept & { readonly at: "fresh" | "sleeping" | "resting" })
  | (Open & { readonly at: "resuming" | "generating"; readonly taken: Taken })
  | (Open & { readonly at: "parked"; readonly request: "none" | "in_hand" })
  | (Open & { readonly at: "finished" })
  | (Open & { readonly at: "ending"; readonly why: EndReason; readonly rows: Rows })
  | (Kept & { readonly at: "gone"; readonly rows: Rows });

/** What of it is on the disk. */
type Rows = "kept" | "removed";

/** Why a session ends before its client is done with it. */
export type EndReason = "stopped" | "evicted" | "expired" | "abandoned" | "failed" | "no_room";

/** A request with tool results, taken up by the session that waits for them. */
export interface TakenResults {
  readonly answer: AnswerRef;
  /** The lineage with the request. */
  readonly requestHead: string;
  readonly responses: readonly string[];
  readonly parkedMax: number | undefined;
  readonly patienceMs?: number | undefined;
  readonly isBackground?: boolean | undefined;
  readonly apiKeyId?: string | undefined;
  readonly historyBytes: number;
}

export type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export type Input =
  /** `responses`: the rows by which a retry finds the answer. */
  | { readonly kind: "opened"; readonly responses: readonly string[] }
  | { readonly kind: "unopened" | "wanted" | "restarted" | "take" | "release" | "repeated" }
  | { readonly kind: "clock" | "rest" | "lost" | "leave" | "over" }
  /** `checkpoint`: the conversation after the turn, encoded; undefined when the turn left none. */
  | {
      readonly kind: "paused";
      readonly pause: Pause;
      readonly checkpoint: string | undefined;
      readonly nowMs: number;
    }
  | { readonly kind: "results"; readonly results: TakenResults; readonly nowMs: number }
  | { readonly kind: "readers"; readonly count: number }
  | { readonly kind: "end"; readonly why: EndReason };

/** `rest`: as `ttl`, and before that it may rest. */
export type Clock = "grace" | "ttl" | "rest" | "none";

export type Effect =
  /** Reads the stream back if its log has the whole answer: the process may have died before it could say so. */
  | { readonly kind: "look" }
  /** Attaches to the stream as its writer, and reads it back. */
  | { readonly kind: "resume" }
  | { readonly kind: "clock"; readonly clock: Clock }
  | { readonly kind: "count"; readonly why: EndReason }
  /** Sessions end that there is no room for beside this one. `isBack`: it has waited before, maybe for longer than they have. */
  | { readonly kind: "make_room"; readonly isBack?: true }
  /** `behind`: the log says the same, and a start reads it there. */
  | { readonly kind: "save"; readonly when: "now" | "behind" }
  /** Nothing of the session is written; what came with the input is. */
  | { readonly kind: "keep" }
  /** Another answer begins. The record goes first: what is said twice does no harm (A8), and what is said without it would run the turn at the next start. */
  | { readonly kind: "continue" }
  /** Readers that wait for more are refused. */
  | { readonly kind: "refuse_readers" }
  /** The answers that it gave are not given again. */
  | { readonly kind: "forget_answers" }
  | { readonly kind: "remove"; readonly withResponses: boolean }
  /** Stops the turn for good. */
  | { readonly kind: "abort" }
  /** Lets go of the stream without ending it. */
  | { readonly kind: "leave" }
  /** The same, and of all that was read of it. */
  | { readonly kind: "rest" };

type Step = readonly [State, readonly Effect[]];

const NOTHING: readonly Effect[] = [];
const ASLEEP: readonly Effect[] = [{ kind: "clock", clock: "grace" }, { kind: "look" }];

/** A session whose stream is about to be opened. */
export function begin(record: SessionRecord): State {
  return { at: "fresh", record };
}

/**
 * A session that a start finds. One that waits for tool results costs nothing and is resumed, and so does an answer that is complete in the log; one that was cut off
 * sleeps (G7), unless it is wanted without a reader.
 */
export function find(record: SessionRecord): Step {
  const state: State = { at: "resuming", record, readers: 0, taken: "earlier" };
  if (record.state === "generating" && record.isBackground === true)
    return [state, [{ kind: "clock", clock: "grace" }, { kind: "resume" }]];
  if (record.state !== "parked") return [{ at: "sleeping", record }, ASLEEP];
  return [state, [{ kind: "clock", clock: "ttl" }, { kind: "resume" }]];
}

export function step(state: State, input: Input): Step {
  const [next, effects] = react(state, input);
  const clock = clockOf(next);
  return [next, clock === clockOf(state) ? effects : [{ kind: "clock", clock }, ...effects]];
}

function react(state: State, input: Input): Step {
  switch (input.kind) {
    case "opened": {
      if (state.at !== "fresh") return [state, NOTHING];
      const record = { ...state.record, responses: [...input.responses] };
      return [{ at: "generating", record, readers: 0, taken: "here" }, NOTHING];
    }
    case "unopened":
      return state.at === "fresh" ? [{ ...state, at: "gone", rows: "kept" }, NOTHING] : [state, NOTHING];
    case "wanted": {
      if (state.at !== "sleeping" && state.at !== "resting") return [state, NOTHING];
      return [{ ...state, at: "resuming", readers: 0, taken: "earlier" }, [{ kind: "resume" }]];
    }
    case "restarted":
      // The log of a turn that waits may show older steps that began anew.
      return state.at === "resuming" && state.record.state === "generating"
        ? [{ ...state, at: "generating" }, NOTHING]
        : [state, NOTHING];
    case "paused":
      return paused(state, input.pause, input.checkpoint, input.nowMs);
    case "take":
      return state.at === "parked" ? [{ ...state, request: "in_hand" }, NOTHING] : [state, NOTHING];
    case "release":
      return state.at === "parked" ? [{ ...state, request: "none" }, NOTHING] : [state, NOTHING];
    case "results":
      return continued(state, input.results, input.nowMs);
    case "repeated":
      return owesResults(state) ? [{ ...state, taken: "here" }, NOTHING] : [state, NOTHING];
    case "readers":
      return isOpen(state) ? [{ ...state, readers: input.count }, NOTHING] : [state, NOTHING];
    case "clock":
      return clockOf(state) === "none"
        ? [state, NOTHING]
        : end(state, clockOf(state) === "grace" ? "abandoned" : "expired");
    case "rest":
      return clockOf(state) === "rest"
        ? [{ at: "resting", record: state.record }, [{ kind: "rest" }]]
        : [state, NOTHING];
    case "end":
      return end(state, input.why);
    case "lost":
      return [
        { at: "gone", record: state.record, rows: "removed" },
        [{ kind: "remove", withResponses: false }],
      ];
    case "leave":
      if (state.at === "sleeping" || state.at === "resting")
        return [{ ...state, at: "gone", rows: "kept" }, NOTHING];
      return [state, isOpen(state) ? [{ kind: "leave" }] : NOTHING];
    case "over":
      return [{ at: "gone", record: state.record, rows: rowsOf(state) }, NOTHING];
  }
}

/** The answer is complete. What a later request needs is in the log or saved before the client has anything that could bring it. */
function paused(state: State, pause: Pause, checkpoint: string | undefined, nowMs: number): Step {
  if (state.at === "ending" && state.rows === "kept") {
    // The process before this one may have died with the answer complete: then its Idempotency-Key finds it still.
    const isComplete = pause.kind === "ended" && pause.finish !== undefined;
    const withResponses = !isComplete || state.why === "stopped";
    return [{ ...state, rows: "removed" }, [{ kind: "remove", withResponses }]];
  }
  if (state.at !== "resuming" && state.at !== "generating" && state.at !== "parked")
    return [state, [{ kind: "keep" }]];
  const { readers } = state;
  // Read back after a start: it is on the disk, and has waited since then.
  if (state.at === "resuming" && pause.kind === "calls" && state.record.state === "parked")
    return [
      { at: "parked", record: state.record, readers, request: "none" },
      [{ kind: "make_room", isBack: true }],
    ];
  if (pause.kind === "ended" && (pause.reason !== "completed" || checkpoint === undefined)) {
    // A failed answer may be retried; an answer that ended with a finish_reason may not. Without a checkpoint no turn can follow.
    const withResponses = pause.reason !== "completed" && pause.finish === undefined;
    const ending: State = { at: "ending", why: "failed", rows: "removed", record: state.record, readers };
    return [ending, [{ kind: "remove", withResponses }]];
  }
  const record: SessionRecord = {
    ...state.record,
    state: pause.kind === "calls" ? "parked" : "finished",
    // No answer follows in a turn that is complete.
    requestHead: pause.kind === "calls" ? state.record.requestHead : "",
    head: chain(state.record.requestHead, levelled(answerLine(pause))),
    pending: pause.kind === "calls" ? pause.calls.map(pendingOf) : [],
    answered: [],
    lacksResults: undefined,
    steps: pause.kind === "calls" ? pause.step : 0,
    checkpoint: checkpoint ?? state.record.checkpoint,
    pausedAt: pause.eventId,
    updatedMs: nowMs,
  };
  if (pause.kind === "ended")
    return [{ at: "finished", record, readers }, [{ kind: "save", when: "behind" }]];
  const request = state.at === "parked" ? state.request : "none";
  return [{ at: "parked", record, readers, request }, [{ kind: "make_room" }, { kind: "save", when: "now" }]];
}

function pendingOf(call: Extract<Pause, { kind: "calls" }>["calls"][number]): PendingCall {
  const { callId, execId, id, providerToolCallId } = call;
  return { toolId: callId, execId, id, toolCallId: providerToolCallId };
}

function continued(state: State, results: TakenResults, nowMs: number): Step {
  if (state.at !== "parked") return [state, NOTHING];
  const record = withResults(state.record, results, nowMs);
  return [{ at: "generating", record, readers: 0, taken: "here" }, [{ kind: "continue" }]];
}

/** The record of a session that waited, with the request that brings its results. */
export function withResults(before: SessionRecord, results: TakenResults, nowMs: number): SessionRecord {
  const { answer, requestHead, responses, parkedMax, patienceMs, historyBytes } = results;
  return {
    ...before,
    state: "generating",
    answer,
    requestHead,
    head: "",
    pending: [],
    answered: before.pending,
    responses: [...responses],
    parkedMax,
    patienceMs,
    isBackground: results.isBackground,
    apiKeyId: results.apiKeyId,
    historyBytes,
    updatedMs: nowMs,
  };
}

function end(state: State, why: EndReason): Step {
  const { record } = state;
  switch (state.at) {
    case "sleeping":
    case "resting":
      // Its rows stay until the abort is durable: a start after a crash finds it again.
      return [
        { at: "ending", why, rows: "kept", record, readers: 0 },
        [{ kind: "count", why }, { kind: "forget_answers" }, { kind: "abort" }],
      ];
    case "resuming":
    case "generating":
    case "parked":
      return [
        { at: "ending", why, rows: "removed", record, readers: state.readers },
        [
          { kind: "count", why },
          ...(why === "no_room" ? [{ kind: "refuse_readers" } as const] : []),
          { kind: "remove", withResponses: true },
          { kind: "abort" },
        ],
      ];
    case "ending":
      // A request to stop is answered when the stop is durable.
      return [state, why === "stopped" ? [{ kind: "abort" }] : NOTHING];
    case "fresh":
    case "finished":
    case "gone":
      // A client cannot name a stream that is not open yet, and a stop behind the turn's end changes nothing.
      return [state, NOTHING];
  }
}

/** An answer without a reader, and a session without its client, end after a while. */
function clockOf(state: State): Clock {
  switch (state.at) {
    case "sleeping":
      return "grace";
    case "resting":
      return "ttl";
    case "resuming":
    case "generating":
    case "parked":
      if (state.readers > 0) return "none";
      if (state.at === "parked" && state.request === "none") return "rest";
      return state.record.state === "parked" ? "ttl" : "grace";
    case "fresh":
    case "finished":
    case "ending":
    case "gone":
      return "none";
  }
}

type OpenState = Exclude<State, { readonly at: "fresh" | "sleeping" | "resting" | "gone" }>;

/** It has a stream, or is about to. */
function isOpen(state: State): state is OpenState {
  return state.at !== "fresh" && state.at !== "sleeping" && state.at !== "resting" && state.at !== "gone";
}

/** Once they are removed, nothing of it is saved any more. */
export function rowsOf(state: State): Rows {
  return state.at === "ending" || state.at === "gone" ? state.rows : "kept";
}

/** It counts as an open stream of its principal. */
export function isCounted({ at }: State): boolean {
  return at !== "ending" && at !== "gone";
}

/** It waits for tool results: it holds memory, little when it rests, and costs no tokens. */
export function isWaiting({ at, record }: State): boolean {
  return at === "parked" || at === "resting" || (at === "resuming" && record.state === "parked");
}

/** It may end to make room for another session of its principal. */
export function canMakeRoom(state: State): boolean {
  if (state.at === "parked") return state.request === "none";
  return state.at === "sleeping" || isWaiting(state);
}

/** No request is in its hand, and it still waits where it was looked at. */
export function canTake(state: State, seen: SessionRecord): boolean {
  if (!isWaiting(state) || (state.at === "parked" && state.request === "in_hand")) return false;
  const { answer, head } = state.record;
  return answer.fromEvent === seen.answer.fromEvent && head === seen.head;
}

/** What the request that it answers has said may have died with the process that took it: a retry says it again. */
export function owesResults(
  state: State,
): state is Extract<State, { readonly at: "resuming" | "generating" }> {
  const isAnswering = state.at === "resuming" || state.at === "generating";
  return isAnswering && state.taken === "earlier" && state.record.answered.length > 0;
}
