/**
 * A client's stream for the tests: how it begins, what a server says to it, what it wants.
 */
import assert from "node:assert/strict";
import * as clientState from "../../src/core/client-state.ts";
import { type Input, step } from "../../src/core/client-stream.ts";
import { type JournalRecord, recover } from "../../src/core/journal.ts";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import type { EndReason, ServerFrame, WelcomeFrame } from "../../src/protocol/frames.ts";
import { last, run } from "./run.ts";

export type State = clientState.State;
export type Effect = clientState.Effect;

export const OPTIONS: clientState.Options = {
  ...clientState.DEFAULTS,
  retry: { baseMs: 100, capMs: 1_000, budget: { burst: 100, refillMs: 1_000 }, giveUpAfterMs: 1e9 },
  stall: { heartbeatsMissedMax: 3, progressMs: 60_000, unansweredMs: 30_000 },
};

export interface Start extends Partial<Omit<clientState.Beginning, "journal">> {
  readonly records?: readonly JournalRecord[];
  readonly takesOver?: boolean;
  readonly options?: Partial<clientState.Options>;
}

/** A client that has just been started from what is on its disk. */
export function client({ records = [], takesOver = false, options, ...rest }: Start = {}): State {
  const journal = recover([{ kind: "opened", journalId: "laptop", takesOver, createdMs: 0 }, ...records]);
  assert.ok(journal !== undefined);
  const beginning = {
    role: "writer",
    fresh: false,
    autoResume: false,
    keepsJournal: true,
    nowMs: 0,
    ...rest,
  } as const;
  return clientState.init({ ...OPTIONS, ...options }, { ...beginning, journal });
}

export const welcomeFrame: WelcomeFrame = {
  kind: "welcome",
  message: "attached",
  degraded: false,
  nextSeqno: 0,
  eventHead: 0,
  eventFloor: 1,
  writerEpoch: 1,
  writerSinceEvent: 0,
  durability: "fsync",
  retentionLeftMs: 1_000,
  heartbeatIntervalMs: 5_000,
  serverTimeMs: 1_000,
  lastActivityMs: 0,
  aborted: false,
  closed: false,
  protocolVersion: 1,
  resumed: true,
};

export const tick = (nowMs = 0): Input => ({ kind: "tick", nowMs, random: 0 });
export const frame = (one: ServerFrame, connection = 1, nowMs = 0): Input => {
  return { kind: "frame", connection, frame: one, nowMs, random: 0 };
};
export const welcome = (more: Partial<WelcomeFrame> = {}, connection = 1, nowMs = 0): Input =>
  frame({ ...welcomeFrame, ...more }, connection, nowMs);
export const event = (eventId: number, end?: EndReason, connection = 1, nowMs = 0): Input =>
  frame({ kind: "event", eventId, body: new Uint8Array(), end }, connection, nowMs);
export const ack = (seqno: number, connection = 1): Input => frame({ kind: "ack", seqno }, connection);
export const heartbeat = (nextSeqno: number, eventHead: number, aborted = false, nowMs = 0): Input =>
  frame({ kind: "heartbeat", nextSeqno, eventHead, aborted }, 1, nowMs);
export const refused = (code: ErrorCode, connection = 1, nowMs = 0): Input =>
  frame({ kind: "error", code, message: "no", retryAfterMs: undefined }, connection, nowMs);
export const lost = (connection = 1, nowMs = 0, random = 0): Input => ({
  kind: "lost",
  connection,
  code: "connection_lost",
  message: "cut",
  retryAfterMs: undefined,
  nowMs,
  random,
});
export const say: Input = { kind: "say", bytes: 10, isClose: false, nowMs: 0 };
export const close: Input = { kind: "say", bytes: 0, isClose: true, nowMs: 0 };
export const recorded = (count: number, nowMs = 0): Input => ({ kind: "recorded", count, nowMs });
export const abort: Input = { kind: "abort", nowMs: 0 };
export const answer = (execId = "x1"): Input => ({ kind: "answer", execId, bytes: 5, nowMs: 0 });

export function exec(eventId: number, execId = "x1", needsApproval = false): Input {
  const input = {
    kind: "requested",
    execId,
    eventId,
    argsHash: "h",
    repeatable: false,
    needsApproval,
  } as const;
  return { kind: "exec", input, nowMs: 0 };
}
export const approved: Input = {
  kind: "exec",
  input: { kind: "approved", execId: "x1", argsHash: "h", untilMs: 1e9 },
  nowMs: 0,
};
export const denied: Input = { kind: "exec", input: { kind: "denied", execId: "x1" }, nowMs: 0 };

/** An exec as the journal knows it. */
export const received = (eventId = 1): JournalRecord => ({
  kind: "exec_received",
  execId: "x1",
  eventId,
  argsHash: "h",
  repeatable: false,
  needsApproval: false,
  request: new Uint8Array(),
});

/** Connected, welcomed, and every record so far on disk. */
export function attached(start: Start = {}, more: Partial<WelcomeFrame> = {}): State {
  return onDisk(run(step, client(start), [tick(), welcome(more)])[0]);
}

/** The same with everything that was ordered on disk. */
export function onDisk(state: State): State {
  return run(step, state, [recorded(state.pending.length)])[0];
}

function word(effect: Effect): string {
  switch (effect.kind) {
    case "record":
      return `record ${"phase" in effect.order ? effect.order.phase : effect.order.kind}`;
    case "send_chunk":
      return `send ${String(effect.seqno)}`;
    case "deliver":
      return `deliver ${String(effect.eventId)}`;
    case "tool":
      return effect.effect.kind === "report" ? `report ${effect.effect.outcome}` : effect.effect.kind;
    case "stall":
      return `${effect.news.kind} ${effect.news.clock}`;
    case "connect":
    case "disconnect":
    case "send_abort":
    case "send_heartbeat":
    case "release":
    case "ask_credentials":
    case "stopped":
      return effect.kind;
  }
}

/** What a client wanted, in words short enough to compare. */
export const words = (effects: readonly Effect[]): readonly string[] => effects.map(word);
export const after = (state: State, ...inputs: readonly Input[]): readonly string[] =>
  words(last(step, state, inputs)[1]);
export const through = (state: State, ...inputs: readonly Input[]): readonly string[] =>
  words(run(step, state, inputs)[1]);
export const stateAfter = (state: State, ...inputs: readonly Input[]): State => run(step, state, inputs)[0];
