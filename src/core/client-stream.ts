/**
 * Everything a client decides about one stream: connect, send, follow, stop, run tools, give up.
 *
 * The parts decide for themselves; this machine routes what happens to them and turns what they
 * want into orders for the driver. Frames of an older connection are ignored, so a dead connection
 * can neither steal a chunk nor deliver an event.
 *
 * Invariant: nothing is sent, run or skipped before the record that allows it is as durable as `record-needs.ts` says (A5, B3, C2).
 */
import type { ServerFrame } from "../protocol/frames.ts";
import { nameOfRequest, type ServerRequest } from "../protocol/request-codec.ts";
import { assert, unreachable } from "../protocol/assert.ts";
import { connect, detached, keepServerTime, type Loss, lost, wake, welcome } from "./client-connection.ts";
import {
  type Flow,
  finish,
  flow,
  heartbeat,
  order,
  recorded,
  stepCursor,
  stepOutbox,
  stepRetry,
  stepStall,
  stepStop,
  stepTools,
  updateOwed,
} from "./client-flow.ts";
import { maySpeak, type State, type Step } from "./client-state.ts";
import * as cursor from "./cursor.ts";
import * as retry from "./retry.ts";
import * as stall from "./stall.ts";
import * as tools from "./tool-journal.ts";

export type Input =
  /** A chunk or, with no bytes, the close. */
  | { readonly kind: "say"; readonly bytes: number; readonly isClose: boolean; readonly nowMs: number }
  /** The result of an exec, of a run or of our own. */
  | { readonly kind: "answer"; readonly execId: string; readonly bytes: number; readonly nowMs: number }
  /** So many of the oldest pending records are as durable as they need to be. */
  | { readonly kind: "recorded"; readonly count: number; readonly nowMs: number }
  | { readonly kind: "record_failed"; readonly message: string }
  | {
      readonly kind: "frame";
      readonly connection: number;
      readonly frame: ServerFrame;
      readonly nowMs: number;
      readonly random: number;
    }
  | ({ readonly kind: "lost"; readonly connection: number } & Loss)
  | { readonly kind: "tick"; readonly nowMs: number; readonly random: number }
  /** The network is back or the page became visible: do not wait out the delay. */
  | { readonly kind: "wake"; readonly nowMs: number }
  | { readonly kind: "credentials"; readonly nowMs: number }
  /** There are none to be had. */
  | { readonly kind: "no_credentials"; readonly message: string }
  | { readonly kind: "abort"; readonly nowMs: number }
  | {
      readonly kind: "exec";
      readonly input: ToolNews;
      readonly nowMs: number;
    }
  /** The server asks for something that no tool of this client deals with: a blob, a query, an exec where there are no tools. */
  | { readonly kind: "asked"; readonly request: ServerRequest; readonly nowMs: number }
  /** The application has said its answer. */
  | { readonly kind: "answered"; readonly request: ServerRequest; readonly nowMs: number }
  /** A person thinks about what the server asked, or has stopped thinking. */
  | { readonly kind: "considering"; readonly id: string; readonly isOver: boolean; readonly nowMs: number }
  | { readonly kind: "snapshot"; readonly through: number }
  /** The application does not keep up: let go of the connection until it has (F2). */
  | { readonly kind: "hold" }
  /** The application has read everything. */
  | { readonly kind: "drained"; readonly nowMs: number }
  /** Leave without ending anything: the journal stays and can be resumed. */
  | { readonly kind: "leave" };

/** What reaches the tool journal from outside: from the server's events, and from the approver. */
export type ToolNews = Extract<tools.Input, { kind: "requested" | "approved" | "denied" | "exec_aborted" }>;

export function step(state: State, input: Input): Step {
  if (state.phase === "stopped") return [state, []];
  const next = followed(state, input);
  if (next !== undefined) return [next, [{ kind: "deliver", eventId: next.cursor.taken, end: undefined }]];
  const at = flow(state);
  route(at, input);
  if ("nowMs" in input) updateOwed(at, input.nowMs);
  return [at.state, at.effects];
}

/**
 * The state behind the next event, where nothing follows from it but that it is delivered: by far the most frequent step of an answer. What the server owes
 * does not change with it. Undefined: the whole machine has to look at the input.
 */
export function followed(state: State, input: Input): State | undefined {
  if (input.kind !== "frame" || input.frame.kind !== "event" || input.frame.end !== undefined)
    return undefined;
  const { phase, degraded, stall: clocks } = state;
  if (phase !== "attached" || degraded || input.connection !== state.connection) return undefined;
  if (clocks.standstills.length > 0) return undefined;
  const { frame, nowMs } = input;
  const [place, [effect]] = cursor.step(state.cursor, frame);
  if (effect?.kind !== "take") return undefined;
  const moved = { kind: "progress", nowMs } as const;
  const [stalls] = stall.step(clocks, moved);
  const [retries] = retry.step(state.retry, moved);
  return { ...state, cursor: place, stall: stalls, retry: retries };
}

function route(at: Flow, input: Input): void {
  switch (input.kind) {
    case "say":
      say(at, input.bytes, input.isClose, undefined);
      return;
    case "answer":
      say(at, input.bytes, false, input.execId);
      return;
    case "recorded":
      allRecorded(at, input.count, input.nowMs);
      return;
    case "record_failed":
      finish(at, undefined, {
        code: "unavailable",
        message: `this client's journal failed: ${input.message}`,
      });
      return;
    case "frame":
      if (input.connection === at.state.connection) received(at, input);
      return;
    case "lost":
      if (input.connection === at.state.connection) lost(at, input);
      return;
    case "tick":
      tick(at, input.nowMs, input.random);
      return;
    case "wake":
      wake(at, input.nowMs);
      return;
    case "credentials":
      if (at.state.phase === "asking") connect(at, input.nowMs);
      return;
    case "no_credentials":
      finish(at, undefined, { code: "unauthenticated", message: input.message });
      return;
    case "abort":
      stepStop(at, { kind: "wanted" });
      stepTools(at, { kind: "aborted" });
      // A wish to stop does not wait until the application has read (D3).
      unhold(at, input.nowMs);
      return;
    case "exec":
      exec(at, input.input, input.nowMs);
      return;
    case "asked":
      asked(at, input.request, input.nowMs);
      return;
    case "answered":
      answered(at, input.request);
      return;
    case "considering":
      consider(at, input);
      return;
    case "snapshot":
      assert(input.through <= at.state.cursor.taken, "a snapshot covers only what was received");
      assert(input.through >= at.state.snapshotAt, "a snapshot never goes back");
      at.state.snapshotAt = input.through;
      order(at, { kind: "snapshot", cursor: input.through });
      return;
    case "hold":
      if (at.state.phase !== "attached" || at.state.degraded) return;
      detached(at);
      at.state.isHeld = true;
      return;
    case "drained":
      unhold(at, input.nowMs);
      return;
    case "leave":
      finish(at, undefined, undefined);
      return;
    default:
      unreachable(input);
  }
}

function say(at: Flow, bytes: number, isClose: boolean, execId: string | undefined): void {
  assert(maySpeak(at.state, bytes, isClose), "the driver waits for room");
  const seqno = at.state.outbox.next;
  at.state.isClosed = isClose;
  stepOutbox(at, { kind: "submit", bytes }, { isClose, execId });
  if (execId !== undefined) stepTools(at, { kind: "answered", execId, seqno });
}

function allRecorded(at: Flow, count: number, nowMs: number): void {
  assert(count <= at.state.pending.length, "only what was ordered is recorded");
  const done = at.state.pending.slice(0, count);
  at.state.pending = at.state.pending.slice(count);
  for (const one of done) recorded(at, one, nowMs);
}

function exec(at: Flow, input: ToolNews, nowMs: number): void {
  // A client that has closed cannot answer, and a reader must not (D2).
  if (at.state.role !== "writer" || at.state.isClosed) return;
  const isNew = tools.find(at.state.tools, input.execId) === undefined;
  stepTools(at, input);
  const isKnown = tools.find(at.state.tools, input.execId) !== undefined;
  const request = { kind: "exec", id: input.execId } as const;
  if (isNew && isKnown) stepStall(at, { kind: "asked", request, nowMs });
}

function asked(at: Flow, request: ServerRequest, nowMs: number): void {
  // As with execs: only the writer answers, and only until it has closed.
  if (at.state.role !== "writer" || at.state.isClosed) return;
  if (request.kind === "exec") {
    // The application got it as an event like any other: it is in its hands, however long it takes.
    at.state.execsOutside = new Set(at.state.execsOutside).add(request.id);
  } else if (!at.state.considering.has(nameOfRequest(request))) {
    stepStall(at, { kind: "asked", request, nowMs });
  }
}

function answered(at: Flow, request: ServerRequest): void {
  stepStall(at, { kind: "taken_up", request });
  if (request.kind !== "exec") return;
  const execsOutside = new Set(at.state.execsOutside);
  execsOutside.delete(request.id);
  at.state.execsOutside = execsOutside;
}

/** A question that waits for a person is no stall. */
function consider(at: Flow, { id, isOver }: Extract<Input, { kind: "considering" }>): void {
  const considering = new Set(at.state.considering);
  if (isOver) considering.delete(id);
  else considering.add(id);
  at.state.considering = considering;
  const request = at.state.stall.unanswered.find((one) => nameOfRequest(one) === id);
  if (request !== undefined && !isOver) stepStall(at, { kind: "taken_up", request });
}

function received(at: Flow, input: Extract<Input, { kind: "frame" }>): void {
  const { frame, nowMs, random } = input;
  if (frame.kind === "error") {
    const { code, message, retryAfterMs } = frame;
    lost(at, { code, message, retryAfterMs, nowMs, random });
    return;
  }
  if (frame.kind === "welcome") {
    if (at.state.phase === "connecting") welcome(at, frame, nowMs, random);
    return;
  }
  if (at.state.phase !== "attached") return;
  stepStall(at, { kind: "heard", nowMs });
  switch (frame.kind) {
    case "event":
      if (at.state.degraded) {
        at.effects.push({ kind: "deliver", eventId: 0, end: frame.end });
        progress(at, nowMs);
        if (frame.end !== undefined) finish(at, frame.end, undefined);
      } else {
        follow(at, frame, nowMs, random);
      }
      return;
    case "ack":
      acknowledged(at, frame.seqno + 1, nowMs);
      return;
    case "heartbeat":
      acknowledged(at, frame.nextSeqno, nowMs);
      stepStop(at, { kind: "told", aborted: frame.aborted });
      if (frame.aborted) stepTools(at, { kind: "aborted" });
      if (!at.state.degraded) follow(at, frame, nowMs, random);
      return;
    case "durability_lost":
      // The connection ends with `unavailable` right after; that decides.
      return;
    default:
      unreachable(frame);
  }
}

function follow(at: Flow, input: Parameters<typeof stepCursor>[1], nowMs: number, random: number): void {
  const outcome = stepCursor(at, input);
  if (outcome?.kind === "gap") {
    lost(at, { code: "event_gap", message: outcome.message, retryAfterMs: undefined, nowMs, random });
  } else if (outcome?.kind === "take") {
    progress(at, nowMs);
    if (outcome.end !== undefined) finish(at, outcome.end, undefined);
  }
}

function acknowledged(at: Flow, nextSeqno: number, nowMs: number): void {
  const before = at.state.outbox.acked;
  if (at.state.role === "reader" || at.state.degraded || nextSeqno <= before) return;
  stepOutbox(at, { kind: "ack", nextSeqno });
  if (at.state.outbox.acked === before) return;
  order(at, { kind: "acked", nextSeqno });
  stepTools(at, { kind: "acked", nextSeqno });
  progress(at, nowMs);
}

function tick(at: Flow, nowMs: number, random: number): void {
  const { phase, wakeAtMs } = at.state;
  if (wakeAtMs === undefined || nowMs < wakeAtMs) return;
  switch (phase) {
    case "waiting":
      connect(at, nowMs);
      return;
    case "connecting":
      lost(at, {
        code: "connection_lost",
        message: "no welcome came",
        retryAfterMs: undefined,
        nowMs,
        random,
      });
      return;
    case "attached": {
      at.state.wakeAtMs = nowMs + at.state.options.heartbeatIntervalMs;
      const verdict = stepStall(at, { kind: "tick", nowMs });
      if (verdict === undefined) {
        keepServerTime(at, nowMs);
        // A probe is a heartbeat too.
        if (!at.effects.some(({ kind }) => kind === "send_heartbeat")) at.effects.push(heartbeat(at.state));
      } else {
        lost(at, {
          code: "connection_lost",
          message: `stalled: ${verdict.stuck}`,
          retryAfterMs: undefined,
          nowMs,
          random,
        });
      }
      return;
    }
    default:
      assert(false, `no wake-up is due while ${phase}`);
  }
}

function unhold(at: Flow, nowMs: number): void {
  if (!at.state.isHeld) return;
  at.state.isHeld = false;
  wake(at, nowMs);
}

function progress(at: Flow, nowMs: number): void {
  stepStall(at, { kind: "progress", nowMs });
  stepRetry(at, { kind: "progress", nowMs });
}
