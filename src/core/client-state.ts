/**
 * What one client knows of one stream, and what it can ask its driver to do.
 *
 * The parts are machines of their own; `client-stream.ts` puts them together. Records are asked for
 * in order and become durable in order, so `pending` is a queue: what comes off its front is as durable as it needs to be
 * (`record-needs.ts`).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { AttachFrame, Durability, EndReason, Role } from "../protocol/frames.ts";
import { WINDOW_MS } from "./auto-resume.ts";
import * as cursor from "./cursor.ts";
import type { Outcome, Recovered } from "./journal.ts";
import * as outbox from "./outbox.ts";
import type { RecordNeed } from "./record-needs.ts";
import * as retry from "./retry.ts";
import * as stall from "./stall.ts";
import type { StallNews } from "./standstill.ts";
import * as stop from "./stop.ts";
import * as tools from "./tool-journal.ts";

export interface Options {
  readonly retry: retry.Options;
  readonly stall: stall.Options;
  /** How often the client tells the server that it is there. */
  readonly heartbeatIntervalMs: number;
  /** How long a connection may take to its welcome. */
  readonly attachTimeoutMs: number;
  /** Auto-resume only: how long a stream may have been quiet, by the server's clock. */
  readonly retryLookbackWindowMs: number;
  /** Off: plain streaming, where a broken connection is the end. */
  readonly reliable: boolean;
  /** Whether a new stream may run without durability when the server's store is down. */
  readonly allowDegraded: boolean;
}

export interface Beginning {
  readonly role: Role;
  readonly journal: Recovered;
  /** The idempotency key was drawn a moment ago and nothing has been sent under it. */
  readonly fresh: boolean;
  /** Found at start rather than asked for: the window applies. */
  readonly autoResume: boolean;
  /** False in the server's own process: the server's log is all that there is. A restarted client knows nothing, so nothing is promised before the server has it. */
  readonly keepsJournal: boolean;
  /** A reader that wants what the log has, and no turn to run for it. */
  readonly peeks?: boolean;
  readonly nowMs: number;
}

/** A journal record, without the bodies that the driver adds. */
export type RecordOrder =
  | {
      readonly kind: "said";
      readonly seqno: number;
      readonly isClose: boolean;
      readonly execId: string | undefined;
    }
  | { readonly kind: "attached"; readonly serverTimeMs: number }
  | { readonly kind: "degraded" }
  | { readonly kind: "acked"; readonly nextSeqno: number }
  | { readonly kind: "snapshot"; readonly cursor: number }
  | { readonly kind: "exec"; readonly execId: string; readonly phase: "received" | "approved" | "started" }
  | { readonly kind: "exec_aborted"; readonly execId: string }
  | { readonly kind: "exec_conflict"; readonly execId: string; readonly argsHash: string }
  | { readonly kind: "abort" }
  | { readonly kind: "ended"; readonly outcome: Outcome };

export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
}

export interface State {
  readonly options: Options;
  readonly role: Role;
  readonly journalId: string;
  readonly takesOver: boolean;
  readonly fresh: boolean;
  readonly autoResume: boolean;
  readonly keepsJournal: boolean;
  readonly peeks: boolean;
  /** Undefined until the server has welcomed this journal once: from then on it is resumed, never opened. */
  readonly serverTimeMs: number | undefined;
  /** When `serverTimeMs` was so, by this client's clock. */
  readonly serverTimeAtMs: number;
  readonly phase: "connecting" | "attached" | "waiting" | "asking" | "stopped";
  /** Counts connections; frames of an older one are ignored. */
  readonly connection: number;
  /** This connection's attach was the first under its idempotency key: only then may the answer be degraded. */
  readonly attachedFresh: boolean;
  /** How many chunks travelled inside this connection's attach: 0 or 1. */
  readonly inlineSent: number;
  /** This connection's attach carried the wish to stop. */
  readonly attachedAbort: boolean;
  /** When the driver must tick: the phase says what for. */
  readonly wakeAtMs: number | undefined;
  readonly wasLive: boolean;
  /** Found at start and outside the window: left as it was found. */
  readonly isSkipped: boolean;
  /** The connection was let go because the application does not keep up. */
  readonly isHeld: boolean;
  readonly degraded: boolean;
  /** What an ack survives, as the last welcome said. */
  readonly durability: Durability | undefined;
  /** Where the log ended at the first welcome: what follows was said since. */
  readonly headAtWelcome: number | undefined;
  readonly writerEpoch: number;
  readonly isClosed: boolean;
  /** What the server asked and this client still considers: it waits for us, not we for it. */
  readonly considering: ReadonlySet<string>;
  /** Execs that the application answers by itself, because this client has no tools. */
  readonly execsOutside: ReadonlySet<string>;
  /** The cursor of the last snapshot. */
  readonly snapshotAt: number;
  readonly pending: readonly RecordOrder[];
  readonly outcome: Outcome | undefined;
  readonly failure: Failure | undefined;
  /** Why the last connection was lost; undefined once there is another. */
  readonly trouble: Failure | undefined;
  readonly outbox: outbox.State;
  readonly cursor: cursor.State;
  readonly stop: stop.State;
  readonly retry: retry.State;
  readonly stall: stall.State;
  readonly tools: tools.State;
}

export type Effect =
  /** Answered by `recorded` when the record is as durable as it needs to be. */
  | { readonly kind: "record"; readonly order: RecordOrder; readonly needs: RecordNeed }
  | {
      readonly kind: "connect";
      readonly connection: number;
      readonly attach: Omit<AttachFrame, "firstChunk">;
      readonly inline: boolean;
    }
  | { readonly kind: "disconnect" }
  | { readonly kind: "send_chunk"; readonly seqno: number; readonly writerEpoch: number }
  | { readonly kind: "send_abort" }
  | { readonly kind: "send_heartbeat"; readonly runningExecIds: readonly string[] }
  /** Hand the event in hand to the application. */
  | { readonly kind: "deliver"; readonly eventId: number; readonly end: EndReason | undefined }
  | { readonly kind: "release"; readonly below: number }
  | { readonly kind: "tool"; readonly effect: ToolOrder }
  | { readonly kind: "ask_credentials" }
  /** A standstill was noticed or is over: for the log. */
  | { readonly kind: "stall"; readonly news: StallNews }
  /** The stream is over for this client; nothing follows. */
  | { readonly kind: "stopped" };

/** What the tool journal wants done, besides records. */
export type ToolOrder = Exclude<tools.Effect, { kind: "record" | "record_abort" | "conflict" }>;

export type Step = readonly [State, readonly Effect[]];

export const DEFAULTS: Options = {
  retry: retry.DEFAULTS,
  stall: stall.DEFAULTS,
  heartbeatIntervalMs: 5_000,
  attachTimeoutMs: 10_000,
  retryLookbackWindowMs: WINDOW_MS,
  reliable: true,
  allowDegraded: true,
};

const NOTHING: ReadonlySet<string> = new Set();

export function init(options: Options, beginning: Beginning): State {
  const { journal, role, fresh, autoResume, keepsJournal, peeks = false, nowMs } = beginning;
  const unackedBytes = journal.unacked.map((chunk) => chunk.body.length);
  return {
    options,
    role,
    journalId: journal.journalId,
    takesOver: journal.takesOver,
    fresh,
    autoResume,
    keepsJournal,
    peeks,
    serverTimeMs: journal.serverTimeMs,
    serverTimeAtMs: nowMs,
    phase: "waiting",
    connection: 0,
    attachedFresh: false,
    inlineSent: 0,
    attachedAbort: false,
    wakeAtMs: nowMs,
    wasLive: false,
    isSkipped: false,
    isHeld: false,
    degraded: false,
    durability: undefined,
    headAtWelcome: undefined,
    writerEpoch: 0,
    isClosed: journal.isClosed,
    considering: NOTHING,
    execsOutside: NOTHING,
    snapshotAt: journal.snapshot?.cursor ?? 0,
    pending: [],
    outcome: undefined,
    failure: undefined,
    trouble: undefined,
    outbox: outbox.init({ numbered: journal.numbered, acked: journal.acked, unackedBytes }),
    cursor: cursor.init(journal.snapshot?.cursor ?? 0),
    stop: stop.init(journal.abortWanted),
    retry: retry.init(options.retry, nowMs),
    stall: stall.init(options.stall),
    tools: tools.init(
      [...journal.execs.values()].map(({ entry }) => entry),
      journal.abortWanted,
    ),
  };
}

/** What a user interface shows. */
export type LiveState = "connecting" | "live" | "reconnecting" | "stalled" | "degraded" | "fenced" | "ended";

export function liveState(state: State): LiveState {
  if (state.phase === "stopped") return state.outcome === "fenced" ? "fenced" : "ended";
  if (state.phase !== "attached") return state.wasLive ? "reconnecting" : "connecting";
  if (stall.stuckNow(state.stall) !== undefined) return "stalled";
  return state.degraded ? "degraded" : "live";
}

/** Whether a wish to stop can no longer be lost: it is on disk, or the server has it, or the stream has ended. */
export function isAbortSafe(state: State): boolean {
  const isJournaled = state.role === "writer" && state.keepsJournal && state.stop.wish === "journaled";
  // Over for this client only: what is fenced or lost here may well continue elsewhere.
  const hasEnded = state.outcome !== undefined && state.outcome !== "fenced" && state.outcome !== "lost";
  return isJournaled || state.stop.settled || hasEnded;
}

/** What was said below this number cannot be lost any more: this client has it on its disk, or else the server has it on its own. */
export function safeBelow({ keepsJournal, outbox: box }: State): number {
  return keepsJournal ? box.journaled : box.acked;
}

/** Whether something of this size may be said now. A close waits until every exec has its result (C1). */
export function maySpeak(state: State, bytes: number, isClose: boolean): boolean {
  if (state.phase === "stopped" || state.isClosed || state.role === "reader") return false;
  return outbox.hasRoom(state.outbox, bytes) && !(isClose && tools.hasOpen(state.tools));
}
