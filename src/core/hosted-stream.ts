/**
 * Everything a server decides about one stream while it runs it.
 *
 * Chunks, events, new writers and aborts are *staged* at once, in order, and leave in commits, one
 * at a time; acks, welcomes of new writers and events go out only for what is durable. A connection
 * is an entry here and nothing more: it comes and goes and changes no log (B2).
 *
 * Invariant: durable + in flight + waiting = staged, and nothing beyond `durable` has been told to
 * anybody (A3, B2, D1).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { AttachFrame, EndReason } from "../protocol/frames.ts";
import { assert, unreachable } from "../protocol/assert.ts";
import { admit } from "./attach.ts";
import {
  commitNext,
  detach,
  type Effect,
  hasWriter,
  heard,
  put,
  refuse,
  reported,
  senderStep,
  stage,
  stallStep,
  type State,
  type Step,
  turnOf,
  welcomeReady,
} from "./host-state.ts";
import * as inbox from "./inbox.ts";
import * as life from "./life.ts";
import type * as sender from "./sender.ts";
import { applyCommit, type StreamState } from "./stream-state.ts";
import * as turnStall from "./turn-stall.ts";

export type Input =
  | {
      readonly kind: "attach";
      readonly connection: number;
      readonly frame: AttachFrame;
      readonly firstMac: Uint8Array | undefined;
      readonly resumed: boolean;
      readonly nowMs: number;
    }
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
  | {
      readonly kind: "heartbeat";
      readonly connection: number;
      readonly runningExecIds: readonly string[];
      readonly nowMs: number;
    }
  | { readonly kind: "closed"; readonly connection: number }
  | { readonly kind: "sender"; readonly connection: number; readonly input: sender.Input }
  | {
      readonly kind: "refuse";
      readonly connection: number;
      readonly code: ErrorCode;
      readonly message: string;
    }
  | { readonly kind: "emit" }
  | { readonly kind: "end"; readonly reason: EndReason }
  | { readonly kind: "trim"; readonly eventFloor: number }
  | { readonly kind: "committed"; readonly nowMs: number }
  /** What the turn asked of its client, and what the client answered: of a commit, or read back. */
  | Extract<turnStall.Input, { kind: "logged" }>
  /** `durability_lost`: the store failed; `moved`: another host runs the stream; `shutdown`: we stop; `bug`: ours. */
  | { readonly kind: "drop"; readonly reason: "durability_lost" | "moved" | "shutdown" | "bug" }
  | { readonly kind: "tick"; readonly nowMs: number };

export function step(state: State, input: Input): Step {
  if (state.dropped) return [state, []];
  switch (input.kind) {
    case "attach": {
      const [aborted, effects] = input.frame.abort ? abort(state, input.nowMs) : [state, []];
      const [attached, more] = attach(aborted, input);
      return commitNext(attached, [...effects, ...more]);
    }
    case "chunk":
      return chunk(heard(state, input.connection, input.nowMs), input);
    case "abort":
      return commitNext(...abort(heard(state, input.connection, input.nowMs), input.nowMs));
    case "heartbeat":
      return [reported(state, input.connection, input.runningExecIds, input.nowMs), []];
    case "closed":
      return [detach(state, input.connection), []];
    case "sender":
      return senderStep(state, input.connection, input.input);
    case "refuse":
      return refuse(state, input.connection, input.code, input.message);
    case "emit":
      return commitNext(...lifeStep(state, { kind: "emit" }));
    case "end":
      return commitNext(...lifeStep(state, { kind: "end", reason: input.reason }));
    case "trim": {
      const eventFloor = Math.max(
        state.staged.eventFloor,
        Math.min(input.eventFloor, state.durable.eventHead),
      );
      // The end stays for whoever comes late (B6). While a turn runs its application may have to be rebuilt from the whole log.
      const isRunning = state.staged.end === undefined;
      if (isRunning || eventFloor === state.staged.eventFloor) return [state, []];
      return commitNext(stage(state, 0, 0, { eventFloor }), []);
    }
    case "committed":
      return committed(state, input.nowMs);
    case "logged":
      return stallStep(state, input);
    case "drop":
      return drop(state, input.reason);
    case "tick":
      return tick(state, input.nowMs);
    default:
      return unreachable(input);
  }
}

function abort(state: State, nowMs: number): Step {
  const [moved, effects] = lifeStep(state, { kind: "abort" });
  if (effects.length === 0) return [moved, []];
  return [{ ...moved, graceUntilMs: nowMs + state.options.abortGraceMs }, effects];
}

function attach(state: State, input: Extract<Input, { kind: "attach" }>): Step {
  const { connection, frame, nowMs } = input;
  const replaced = [...state.attached].filter(
    ([, one]) => frame.role === "writer" && one.role === "writer" && one.journalId === frame.journalId,
  );
  const readers = [...state.attached.values()].filter((one) => one.role === "reader").length;
  const admission = admit(frame, state.staged, state.durable, readers);
  if (admission.kind === "refuse") {
    // A client that is turned away for good does not come back to see whether its abort was recorded.
    const isPending = frame.abort && state.staged.aborted && !state.durable.aborted;
    if (isPending) return refuse(state, connection, "unavailable", "the abort is being recorded; reconnect");
    return refuse(state, connection, admission.code, admission.message);
  }

  let next = replaced.reduce((left, [old]) => detach(left, old), state);
  const effects: Effect[] = replaced.map(([old]) => ({ kind: "disconnect", connection: old }));
  if (admission.kind === "new_writer") {
    if (admission.isTakeover)
      effects.push({
        kind: "tell_takeover",
        sinceSeqno: next.staged.nextSeqno,
        sinceEvent: next.staged.eventHead,
      });
    const writer = { writers: admission.writers, writerEpoch: next.staged.writerEpoch + 1 };
    next = stage(next, 0, 0, { writer });
  }
  const writerEpoch = frame.role === "writer" ? next.staged.writerEpoch : 0;
  const { role, journalId, eventId } = frame;
  const { resumed } = input;
  next = put(next, connection, {
    role,
    journalId,
    writerEpoch,
    eventId,
    resumed,
    sinceMs: nowMs,
    heardMs: nowMs,
    execIds: undefined,
    sender: undefined,
  });
  const [welcomed, greetings] = welcomeReady(next, nowMs);
  effects.push(...greetings);
  const { firstMac: mac } = input;
  if (mac === undefined) return commitNext(welcomed, effects);
  const bytes = frame.firstChunk?.length ?? 0;
  const [taken, more] = chunk(welcomed, { connection, seqno: 0, writerEpoch, mac, bytes, isClose: false });
  return commitNext(taken, [...effects, ...more]);
}

function chunk(state: State, input: Omit<Extract<Input, { kind: "chunk" }>, "kind" | "nowMs">): Step {
  const { connection } = input;
  const one = state.attached.get(connection);
  if (one === undefined) return [state, []];
  if (one.role !== "writer") return refuse(state, connection, "invalid_frame", "a reader has nothing to say");
  const isOwnEpoch = input.writerEpoch === one.writerEpoch;
  if (!isOwnEpoch || one.writerEpoch < state.durable.writerEpoch) return fence(state, connection);
  // A takeover is on its way into the store: its commit fences this writer, or fails and takes us all along.
  if (one.writerEpoch < state.staged.writerEpoch) return [state, []];
  // The end event is on its way to this client; an error now would only cut it off from it. Other content is refused all the same (A2).
  if (state.staged.end !== undefined && !inbox.isOther(state.inbox, input)) return [state, []];
  const [next, effects] = inbox.step(state.inbox, { ...input, kind: "chunk" });
  let result: Step = [{ ...state, inbox: next }, []];
  for (const effect of effects) {
    const [now, done] = result;
    switch (effect.kind) {
      case "accept": {
        const staged = stage(now, 1, 0, effect.isClose ? { closed: true } : {});
        result = [staged, [...done, { kind: "stage_chunk", seqno: effect.seqno, isClose: effect.isClose }]];
        break;
      }
      case "ack":
        result = [now, [...done, { kind: "send", connection, frame: { kind: "ack", seqno: effect.seqno } }]];
        break;
      case "refuse":
        result = refuse(now, connection, effect.code, effect.message);
        break;
    }
  }
  return commitNext(...result);
}

function lifeStep(state: State, input: life.Input): Step {
  const [next, effects] = life.step(state.life, input);
  let staged: State = { ...state, life: next };
  const out: Effect[] = [];
  for (const effect of effects) {
    switch (effect.kind) {
      case "record_abort":
        staged = stage(staged, 0, 0, { aborted: true });
        out.push({ kind: "tell_abort" });
        break;
      case "record_event":
        staged = stage(staged, 0, 1, {});
        out.push({ kind: "stage_event", end: undefined });
        break;
      case "record_end":
        staged = stage(staged, 0, 1, { end: effect.reason });
        out.push({ kind: "stage_event", end: effect.reason });
        break;
      case "refuse":
        out.push({ kind: "refuse_event" });
        break;
    }
  }
  return [staged, out];
}

function committed(state: State, nowMs: number): Step {
  const { inFlight } = state;
  assert(inFlight !== undefined, "only a commit in flight is committed");
  const durable = applyCommit(state.durable, inFlight, nowMs);
  const [box, acks] = inbox.step(state.inbox, { kind: "committed", nextSeqno: durable.nextSeqno });
  const hasMoved = inFlight.chunkCount + inFlight.eventCount > 0;
  const [moved, news] = hasMoved ? stallStep(state, { kind: "moved", nowMs }) : [state, []];
  const [weeded, effects] = weedOut({ ...moved, durable, inFlight: undefined, inbox: box, activeMs: nowMs });
  let next = weeded;
  const told: Effect[] = [...news, ...effects];
  for (const [connection, one] of weeded.attached) {
    if (one.sender === undefined) continue;
    for (const ack of acks) {
      if (ack.kind === "ack" && one.role === "writer") told.push({ kind: "send", connection, frame: ack });
    }
    // A client that asked for it answers its user when the abort is durable (D3).
    if (inFlight.change.aborted === true) told.push(heartbeatTo(connection, one.sender, durable));
    const [sending, reads] = senderStep(next, connection, { kind: "head", eventHead: durable.eventHead });
    next = sending;
    told.push(...reads);
  }
  const [welcomed, greetings] = welcomeReady(next, nowMs);
  return commitNext(welcomed, [...told, ...greetings]);
}

/** Turns away whoever a commit has left behind: overtaken writers, readers of events that are gone. */
function weedOut(state: State): Step {
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

function fence(state: State, connection: number): Step {
  return refuse(state, connection, "fenced", "another client has taken this stream over");
}

function tick(state: State, nowMs: number): Step {
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
  if (next.graceUntilMs !== undefined && nowMs >= next.graceUntilMs) {
    const [ended, more] = lifeStep({ ...next, graceUntilMs: undefined }, { kind: "grace_over" });
    next = ended;
    effects.push(...more);
  }
  const [watched, news] = stallStep(next, { kind: "tick", turn: turnOf(next), nowMs });
  next = watched;
  effects.push(...news);
  // An attached writer counts as activity; a quarter of the retention time is precise enough. A span by one clock: the
  // store's may be hours away from this host's (D7).
  const activeMs = next.activeMs ?? nowMs;
  next = { ...next, activeMs };
  const isStale = nowMs - activeMs > state.options.retention.retentionMs / 4;
  if (isStale && hasWriter(next) && next.inFlight === undefined) next = stage(next, 0, 0, { touched: true });
  return commitNext(next, effects);
}

function heartbeatTo(
  connection: number,
  { cursor: eventHead }: sender.State,
  { nextSeqno, aborted }: StreamState,
): Effect {
  return { kind: "send", connection, frame: { kind: "heartbeat", nextSeqno, eventHead, aborted } };
}

function drop(state: State, reason: Extract<Input, { kind: "drop" }>["reason"]): Step {
  const messages = {
    durability_lost: "the store failed; nothing acknowledged is lost, come back later",
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
  return [{ ...state, attached: new Map(), dropped: true }, [...effects, { kind: "dropped" }]];
}
