/**
 * What a host knows of one stream it runs, and what can be done to that knowledge.
 *
 * `hosted-stream.ts` says when; this file says how: staging, committing one at a time, connections
 * and their senders. See there for the invariant.
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { Durability, EndReason, Role, ServerFrame } from "../protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../protocol/limits.ts";
import { assert } from "../protocol/assert.ts";
import * as inbox from "./inbox.ts";
import * as life from "./life.ts";
import * as retention from "./retention.ts";
import * as sender from "./sender.ts";
import type { StallNews } from "./standstill.ts";
import { applyCommit, type CommitShape, type StateChange, type StreamState } from "./stream-state.ts";
import * as turnStall from "./turn-stall.ts";

export interface Options {
  readonly sender: sender.Options;
  readonly retention: retention.Options;
  readonly heartbeatIntervalMs: number;
  /** A client that says nothing for this long is gone: four of its heartbeats. */
  readonly clientSilenceMs: number;
  /** How long the application may take to say its last word after an abort. */
  readonly abortGraceMs: number;
  readonly stall: turnStall.Options;
  /** A turn that waits for its client is let go of when it has had none for so long: longer than most breaks of a connection. */
  readonly restMs: number;
  /** A commit waits for the end of the turn in which it is due: what is staged by then is part of it. */
  readonly gathers: boolean;
}

export const DEFAULTS: Options = {
  sender: sender.DEFAULTS,
  retention: retention.DEFAULTS,
  heartbeatIntervalMs: 5_000,
  clientSilenceMs: 20_000,
  abortGraceMs: 5_000,
  stall: turnStall.DEFAULTS,
  restMs: 5_000,
  gathers: false,
};

/** One connection. Its sender exists once it has been welcomed. */
interface Attached {
  readonly role: Role;
  readonly journalId: string;
  readonly writerEpoch: number;
  readonly eventId: number;
  readonly resumed: boolean;
  readonly sinceMs: number;
  readonly heardMs: number;
  /** Of a writer: the execs that its last heartbeat named; undefined before the first. */
  readonly execIds: ReadonlySet<string> | undefined;
  readonly sender: sender.State | undefined;
}

export interface State {
  readonly options: Options;
  readonly durability: Durability;
  readonly durable: StreamState;
  readonly staged: StreamState;
  /** Staged and not yet part of a commit. */
  readonly waiting: CommitShape;
  readonly inFlight: CommitShape | undefined;
  /** A commit is due, and waits for what this turn of the event loop still stages. */
  readonly isGathering: boolean;
  readonly inbox: inbox.State;
  readonly life: life.State;
  readonly attached: ReadonlyMap<number, Attached>;
  readonly graceUntilMs: number | undefined;
  readonly stall: turnStall.State;
  /** When the stream was last active, by this host's own clock; undefined before its first commit and tick. */
  readonly activeMs: number | undefined;
  /** The last tick at which a client was attached; the first one, while none was. */
  readonly attendedMs: number | undefined;
  /** When a writer of another node last asked for the stream. */
  readonly wantedMs: number | undefined;
  /** This host has stopped: nothing may happen any more. */
  readonly dropped: boolean;
}

/** What the connections of a stream say and do, wherever the stream runs. */
export type ConnectionInput =
  | {
      readonly kind: "chunk";
      readonly connection: number;
      readonly seqno: number;
      readonly writerEpoch: number;
      readonly mac: Uint8Array;
      readonly bytes: number;
      readonly isClose: boolean;
      readonly nowMs: number;
    }
  | { readonly kind: "abort"; readonly connection: number; readonly nowMs: number }
  | { readonly kind: "closed"; readonly connection: number }
  | { readonly kind: "sender"; readonly connection: number; readonly input: sender.Input }
  | {
      readonly kind: "refuse";
      readonly connection: number;
      readonly code: ErrorCode;
      readonly message: string;
    };

export type Effect =
  /** The chunk in hand is accepted: keep its body for the commit, give it to the application. */
  | { readonly kind: "stage_chunk"; readonly seqno: number; readonly isClose: boolean }
  | { readonly kind: "stage_event"; readonly end: EndReason | undefined }
  | { readonly kind: "refuse_event" }
  /** Ask for the commit, by `gathered`, when this turn of the event loop is over. */
  | { readonly kind: "gather" }
  | { readonly kind: "commit"; readonly expected: StreamState; readonly shape: CommitShape }
  | { readonly kind: "send"; readonly connection: number; readonly frame: ServerFrame }
  | {
      readonly kind: "read";
      readonly connection: number;
      readonly from: number;
      /** About so much of it. */
      readonly bytesMax: number;
    }
  | { readonly kind: "disconnect"; readonly connection: number }
  | { readonly kind: "tell_takeover"; readonly sinceSeqno: number; readonly sinceEvent: number }
  | { readonly kind: "tell_abort" }
  /** A standstill of the turn was noticed or is over: for the log. */
  | { readonly kind: "stall"; readonly news: StallNews }
  | { readonly kind: "dropped"; readonly reason: DropReason };

export type Step = readonly [State, readonly Effect[]];

/** Of what only adds to the logs: nearly every event. */
export const NO_CHANGE: StateChange = {};
const NOTHING: CommitShape = { chunkCount: 0, eventCount: 0, change: NO_CHANGE };
const NOBODY: State["attached"] = new Map();

export function init(
  options: Options,
  durability: Durability,
  stored: StreamState,
  macs: readonly Uint8Array[],
): State {
  return {
    options,
    durability,
    durable: stored,
    staged: stored,
    waiting: NOTHING,
    inFlight: undefined,
    isGathering: false,
    inbox: inbox.init(stored.nextSeqno, macs, stored.closed),
    life: life.init(stored.aborted, stored.end),
    attached: NOBODY,
    // A host that finds a stream aborted and not ended owes it an end.
    graceUntilMs: stored.aborted && stored.end === undefined ? 0 : undefined,
    stall: turnStall.init(options.stall),
    activeMs: undefined,
    attendedMs: undefined,
    wantedMs: undefined,
    dropped: false,
  };
}

/** A writer is attached, here or at another node, which asks again and again while nothing moves. */
export function hasWriter({ attached, wantedMs, options }: State, nowMs: number): boolean {
  const isWanted = wantedMs !== undefined && nowMs - wantedMs < options.retention.retentionMs / 2;
  return isWanted || [...attached.values()].some((one) => one.role === "writer");
}

/** A connection that could take more lacks events that are durable. */
export function hasReaderBehind({ attached, durable }: State): boolean {
  return [...attached.values()].some(({ eventId, sender: { cursor = eventId, blockedSinceMs } = {} }) => {
    return cursor < durable.eventHead && blockedSinceMs === undefined;
  });
}

/** Welcomes every connection whose writer epoch is durable by now. */
export function welcomeReady(state: State, nowMs: number): Step {
  let next = state;
  const effects: Effect[] = [];
  for (const [connection, one] of state.attached) {
    if (one.sender !== undefined || one.writerEpoch > state.durable.writerEpoch) continue;
    effects.push({ kind: "send", connection, frame: welcomeFrame(state, one, nowMs) });
    const [sending, reads] = sender.init(state.options.sender, one.eventId, state.durable.eventHead);
    next = put(next, connection, { ...one, sender: sending });
    for (const read of reads) effects.push(senderEffect(connection, read));
  }
  return [next, effects];
}

function welcomeFrame(state: State, one: Attached, nowMs: number): ServerFrame {
  const { durable, options } = state;
  return {
    kind: "welcome",
    message: durable.end === undefined ? "attached" : "attached to a stream that has ended",
    degraded: false,
    nextSeqno: durable.nextSeqno,
    eventHead: durable.eventHead,
    eventFloor: durable.eventFloor,
    writerEpoch: one.writerEpoch,
    writerSinceEvent: durable.writers.at(-1)?.sinceEvent ?? 0,
    durability: state.durability,
    retentionLeftMs: retention.retentionLeftMs(options.retention, durable.activityMs, nowMs),
    heartbeatIntervalMs: options.heartbeatIntervalMs,
    serverTimeMs: nowMs,
    lastActivityMs: durable.activityMs,
    aborted: durable.aborted,
    protocolVersion: PROTOCOL_VERSION,
    resumed: one.resumed,
    closed: durable.closed,
  };
}

export function senderStep(state: State, connection: number, input: sender.Input): Step {
  const one = state.attached.get(connection);
  if (one?.sender === undefined) return [state, []];
  const [next, effects] = sender.step(one.sender, input);
  const moved = put(state, connection, { ...one, sender: next });
  const cut = effects.find((effect) => effect.kind === "cut");
  if (cut !== undefined) return refuse(moved, connection, cut.code, cut.message);
  return [moved, effects.map((effect) => senderEffect(connection, effect))];
}

function senderEffect(connection: number, effect: sender.Effect): Effect {
  assert(effect.kind === "read", "a cut is handled where the connection is");
  const { from, bytesMax } = effect;
  return { kind: "read", connection, from, bytesMax };
}

export function refuse(state: State, connection: number, code: ErrorCode, message: string): Step {
  const error: ServerFrame = { kind: "error", code, message, retryAfterMs: undefined };
  return [
    detach(state, connection),
    [
      { kind: "send", connection, frame: error },
      { kind: "disconnect", connection },
    ],
  ];
}

export function heard(state: State, connection: number, nowMs: number): State {
  const one = state.attached.get(connection);
  return one === undefined ? state : put(state, connection, { ...one, heardMs: nowMs });
}

/** A heartbeat: the client is there, and names the execs that it has in hand. */
export function reported(state: State, connection: number, execIds: readonly string[], nowMs: number): State {
  const one = state.attached.get(connection);
  if (one === undefined) return state;
  return put(state, connection, { ...one, heardMs: nowMs, execIds: new Set(execIds) });
}

export function stallStep(state: State, input: turnStall.Input): Step {
  const [stall, news] = turnStall.step(state.stall, input);
  return [{ ...state, stall }, news.map((one) => ({ kind: "stall", news: one }))];
}

/** The turn as its stall clocks see it. */
export function turnOf({ durable, staged, attached }: State): turnStall.Turn {
  const epoch = durable.writerEpoch;
  const writer = [...attached.values()].find(
    (one) => one.role === "writer" && one.writerEpoch === epoch && one.sender !== undefined,
  );
  return {
    isRunning: durable.nextSeqno > 0 && staged.end === undefined,
    isClosed: durable.closed,
    writerSinceEvent: durable.writers.at(-1)?.sinceEvent ?? 0,
    writer: writer && {
      sinceMs: writer.sinceMs,
      cursor: writer.sender?.cursor ?? 0,
      execIds: writer.execIds,
      namesAll: (writer.execIds?.size ?? 0) < LIMITS.runningExecsMax,
    },
  };
}

/** Turns away clients that a commit has left behind: overtaken writers, readers of events that are gone. */
export function weedOut(state: State): Step {
  let next = state;
  const effects: Effect[] = [];
  const { eventFloor } = state.durable;
  for (const [connection, one] of state.attached) {
    const position = one.sender?.cursor ?? one.eventId;
    const isOvertaken = one.role === "writer" && one.writerEpoch < state.durable.writerEpoch;
    if (!isOvertaken && position + 1 >= eventFloor) continue;
    const [left, refusal] = isOvertaken
      ? fence(next, connection)
      : refuse(next, connection, "events_gone", `events before ${eventFloor} are gone`);
    next = left;
    effects.push(...refusal);
  }
  return [next, effects];
}

export function fence(state: State, connection: number): Step {
  return refuse(state, connection, "fenced", "another client has taken this stream over");
}

export function heartbeatTo(
  connection: number,
  { cursor: eventHead }: sender.State,
  { nextSeqno, aborted }: StreamState,
): Effect {
  return { kind: "send", connection, frame: { kind: "heartbeat", nextSeqno, eventHead, aborted } };
}

/** Sends heartbeats to welcomed connections. Cuts off a connection that has been silent for too long, or does not read. */
export function tickConnections(state: State, nowMs: number): Step {
  let next = state;
  const effects: Effect[] = [];
  for (const [connection, one] of state.attached) {
    if (nowMs - one.heardMs > state.options.clientSilenceMs) {
      next = detach(next, connection);
      effects.push({ kind: "disconnect", connection });
    } else if (one.sender !== undefined) {
      effects.push(heartbeatTo(connection, one.sender, state.durable));
      const [ticked, more] = senderStep(next, connection, { kind: "tick", nowMs });
      next = ticked;
      effects.push(...more);
    }
  }
  return [next, effects];
}

export function detach(state: State, connection: number): State {
  const attached = new Map(state.attached);
  attached.delete(connection);
  return { ...state, attached };
}

export function put(state: State, connection: number, one: Attached): State {
  return { ...state, attached: new Map(state.attached).set(connection, one) };
}

export function stage(state: State, chunkCount: number, eventCount: number, change: StateChange): State {
  const { waiting } = state;
  const staged = applyCommit(state.staged, { chunkCount, eventCount, change }, state.staged.activityMs);
  return {
    ...state,
    staged,
    waiting: {
      chunkCount: waiting.chunkCount + chunkCount,
      eventCount: waiting.eventCount + eventCount,
      change: change === NO_CHANGE ? waiting.change : { ...waiting.change, ...change },
    },
  };
}

/** Something is staged that the store does not have. */
export function isUnstored({ inFlight, isGathering }: State): boolean {
  return inFlight !== undefined || isGathering;
}

/** At most one commit is in flight; everything staged meanwhile shares the next. */
export function commitNext(state: State, effects: readonly Effect[]): Step {
  const { waiting, options } = state;
  const isEmpty =
    waiting.chunkCount === 0 && waiting.eventCount === 0 && Object.keys(waiting.change).length === 0;
  if (isEmpty || isUnstored(state)) return [state, effects];
  if (options.gathers && !isReturning(state))
    return [{ ...state, isGathering: true }, [...effects, { kind: "gather" }]];
  return commitNow(state, effects);
}

/** A client that returns waits for its welcome: it tells what is new by where the log ended then, so nothing that its return causes is in that commit. */
function isReturning({ attached }: State): boolean {
  return [...attached.values()].some(({ sender, resumed }) => sender === undefined && resumed);
}

export function commitNow(state: State, effects: readonly Effect[]): Step {
  const { waiting, durable } = state;
  const commit: Effect = { kind: "commit", expected: durable, shape: waiting };
  return [{ ...state, inFlight: waiting, waiting: NOTHING, isGathering: false }, [...effects, commit]];
}

/** `durability_lost`: the store failed; `moved`: another host runs the stream; `shutdown`: we stop; `bug`: ours. */
export type DropReason = "durability_lost" | "moved" | "shutdown" | "bug";

export function drop(state: State, reason: DropReason): Step {
  const messages = {
    durability_lost: "the store failed; nothing acknowledged is lost, retry later",
    moved: "another node runs this stream now",
    shutdown: "this server is shutting down; reconnect",
    bug: "this server made a mistake; the stream's work has ended here",
  };
  const effects: Effect[] = [];
  for (const [connection, one] of state.attached) {
    if (reason === "durability_lost" && one.sender !== undefined) {
      effects.push({
        kind: "send",
        connection,
        frame: { kind: "durability_lost", head: state.durable.eventHead },
      });
    }
    effects.push(
      ...refuse(state, connection, reason === "bug" ? "stream_failed" : "unavailable", messages[reason])[1],
    );
  }
  for (const news of turnStall.letGo(state.stall)) effects.push({ kind: "stall", news });
  return [{ ...state, attached: NOBODY, dropped: true }, [...effects, { kind: "dropped", reason }]];
}
