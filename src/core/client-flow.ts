/**
 * How the client's machine drives its parts within one step.
 *
 * A `Flow` is the step's own scratch: a copy of the state, which is written into, and the orders so far. Each function here
 * feeds one part and turns what that part wants into orders, so that the routing in
 * `client-stream.ts` reads as what happens, not as plumbing. Nothing of a flow outlives its step.
 */
import { LIMITS } from "../protocol/limits.ts";
import { assert } from "../protocol/assert.ts";
import * as cursor from "./cursor.ts";
import type { Effect, Failure, RecordOrder, State } from "./client-state.ts";
import type { Outcome } from "./journal.ts";
import * as outbox from "./outbox.ts";
import { needOf } from "./record-needs.ts";
import * as retry from "./retry.ts";
import * as stall from "./stall.ts";
import { ended } from "./standstill.ts";
import * as stop from "./stop.ts";
import * as tools from "./tool-journal.ts";

export interface Flow {
  state: { -readonly [Part in keyof State]: State[Part] };
  readonly effects: Effect[];
}

export function flow(state: State): Flow {
  return { state: { ...state }, effects: [] };
}

/** Asks the driver for a record; what depends on it happens when the driver says that it is durable. A client without a journal does it at once. */
export function order(at: Flow, record: RecordOrder): void {
  if (!at.state.keepsJournal) {
    recorded(at, record);
    return;
  }
  at.state.pending = [...at.state.pending, record];
  at.effects.push({ kind: "record", order: record, needs: needOf(record) });
}

/** What waited for the record happens. A client without a journal has no tools: an exec must be on disk before it runs (C2). */
export function recorded(at: Flow, record: RecordOrder, nowMs?: number): void {
  if (record.kind === "said") stepOutbox(at, { kind: "journaled", next: record.seqno + 1 });
  if (record.kind === "abort") stepStop(at, { kind: "journaled" });
  if (record.kind !== "exec") return;
  assert(nowMs !== undefined, "only a client with a journal runs tools");
  stepTools(at, { kind: "recorded", execId: record.execId, phase: record.phase, nowMs });
}

/** The stream is over for this client. Without an outcome the journal can be resumed later. */
export function finish(at: Flow, outcome: Outcome | undefined, failure: Failure | undefined): void {
  stepTools(at, { kind: "let_go" });
  if (outcome !== undefined) order(at, { kind: "ended", outcome });
  if (at.state.phase === "connecting" || at.state.phase === "attached")
    at.effects.push({ kind: "disconnect" });
  for (const standstill of at.state.stall.standstills)
    at.effects.push({ kind: "stall", news: ended(standstill) });
  at.state = { ...at.state, phase: "stopped", wakeAtMs: undefined, outcome, failure };
  at.effects.push({ kind: "stopped" });
}

export function stepOutbox(
  at: Flow,
  input: outbox.Input,
  said?: { readonly isClose: boolean; readonly execId: string | undefined },
): void {
  const [next, effects] = outbox.step(at.state.outbox, input);
  at.state.outbox = next;
  for (const effect of effects) {
    switch (effect.kind) {
      case "journal":
        assert(said !== undefined, "what is submitted is known");
        order(at, { kind: "said", seqno: effect.seqno, isClose: said.isClose, execId: said.execId });
        break;
      case "transmit":
        at.effects.push({ kind: "send_chunk", seqno: effect.seqno, writerEpoch: at.state.writerEpoch });
        break;
      case "release":
        at.effects.push(effect);
        break;
      case "fail":
        finish(at, "lost", effect);
        break;
    }
  }
  releaseUnackable(at);
}

/** A degraded server never acks (D5): what has been sent needs no room any more. */
function releaseUnackable(at: Flow): void {
  const { degraded, outbox: box } = at.state;
  if (!degraded || box.sent <= box.acked) return;
  stepOutbox(at, { kind: "ack", nextSeqno: box.sent });
  stepTools(at, { kind: "acked", nextSeqno: box.sent });
}

/** What became of an event or a heartbeat: taken, a gap, or nothing new. */
export function stepCursor(at: Flow, input: cursor.Input): cursor.Effect | undefined {
  const [next, [effect]] = cursor.step(at.state.cursor, input);
  at.state.cursor = next;
  if (effect?.kind === "take") at.effects.push({ kind: "deliver", eventId: effect.eventId, end: effect.end });
  return effect;
}

export function stepStop(at: Flow, input: stop.Input): void {
  const [next, effects] = stop.step(at.state.stop, input);
  at.state.stop = next;
  for (const effect of effects) {
    if (effect.kind === "journal") order(at, { kind: "abort" });
    else at.effects.push({ kind: "send_abort" });
  }
}

export function stepTools(at: Flow, input: tools.Input): void {
  const [next, effects] = tools.step(at.state.tools, input);
  at.state.tools = next;
  for (const effect of effects) {
    switch (effect.kind) {
      case "record":
        order(at, { kind: "exec", execId: effect.execId, phase: effect.phase });
        break;
      case "record_abort":
        order(at, { kind: "exec_aborted", execId: effect.execId });
        break;
      case "conflict":
        order(at, { kind: "exec_conflict", execId: effect.execId, argsHash: effect.argsHash });
        break;
      case "ask":
      case "run":
      case "report":
        stepStall(at, { kind: "taken_up", request: { kind: "exec", id: effect.execId } });
        at.effects.push({ kind: "tool", effect });
        break;
      case "cancel":
      case "stop_leftover":
        at.effects.push({ kind: "tool", effect });
        break;
    }
  }
}

/** The clock that ran out twice, if one did: the connection is to be given up. */
export function stepStall(
  at: Flow,
  input: stall.Input,
): Extract<stall.Effect, { kind: "reconnect" }> | undefined {
  const [next, effects] = stall.step(at.state.stall, input);
  at.state.stall = next;
  for (const effect of effects) {
    if (effect.kind === "report") at.effects.push({ kind: "stall", news: effect.news });
    if (effect.kind === "probe") at.effects.push(heartbeat(at.state));
    if (effect.kind === "reconnect") return effect;
  }
  return undefined;
}

export function stepRetry(at: Flow, input: Extract<retry.Input, { kind: "progress" | "welcomed" }>): void {
  const [next] = retry.step(at.state.retry, input);
  at.state.retry = next;
}

/** What to do about a lost connection. */
export function decideRetry(
  at: Flow,
  loss: Omit<Extract<retry.Input, { kind: "failed" }>, "kind">,
): retry.Effect {
  const [next, [decision]] = retry.step(at.state.retry, { ...loss, kind: "failed" });
  assert(decision !== undefined, "a loss is decided");
  at.state.retry = next;
  return decision;
}

/** When a wake-up may connect: now, or as soon as the budget allows it. */
export function earlierRetryMs(at: Flow, nowMs: number): number {
  const [next, [decision]] = retry.step(at.state.retry, { kind: "wake", nowMs });
  assert(decision?.kind === "connect", "a wish to connect is granted, now or later");
  at.state.retry = next;
  return decision.atMs;
}

export function heartbeat(state: State): Effect {
  const execIds = [...tools.execIdsInHand(state.tools), ...state.execsOutside];
  return { kind: "send_heartbeat", runningExecIds: execIds.slice(0, LIMITS.runningExecsMax) };
}

/** The server owes us something while a chunk is unacknowledged, or while it is not waiting for us. */
export function updateOwed(at: Flow, nowMs: number): void {
  const { outbox: box, role, considering, execsOutside } = at.state;
  const isUnacked = box.acked < box.sent;
  // A client that has said nothing is owed nothing; a reader cannot tell what the writer is waiting for.
  const isAsked = at.state.stall.unanswered.length > 0 || execsOutside.size > 0;
  const isOurTurn = considering.size > 0 || isAsked || tools.hasOpen(at.state.tools);
  const isAnswerDue = role === "writer" && box.next > 0 && !isOurTurn;
  stepStall(at, { kind: "owed", owed: isUnacked || isAnswerDue, nowMs });
}
