/**
 * Everything a server decides about one stream while it runs it.
 *
 * Chunks, events, new writers and aborts are *staged* at once, in order, and leave in commits, one
 * at a time; acks, welcomes of new writers and events go out only for what is durable. A connection
 * is an entry here and nothing more: it comes and goes and changes no log (B2).
 *
 * Invariant: durable + in flight + waiting = staged, and nothing beyond `durable` has reached a
 * client (A3, B2, D1).
 */
import type { AttachFrame, EndReason } from "../protocol/frames.ts";
import { assert, unreachable } from "../protocol/assert.ts";
import { admit, type Admission } from "./attach.ts";
import {
  commitNext,
  commitNow,
  type ConnectionInput,
  detach,
  drop,
  type DropReason,
  type Effect,
  fence,
  hasWriter,
  heard,
  heartbeatTo,
  NO_CHANGE,
  put,
  refuse,
  reported,
  senderStep,
  stage,
  stallStep,
  type State,
  type Step,
  tickConnections,
  turnOf,
  weedOut,
  welcomeReady,
} from "./host-state.ts";
import * as inbox from "./inbox.ts";
import * as life from "./life.ts";
import { applyCommit } from "./stream-state.ts";
import type * as turnStall from "./turn-stall.ts";

export type Input =
  | ConnectionInput
  | {
      readonly kind: "attach";
      readonly connection: number;
      readonly frame: AttachFrame;
      readonly firstMac: Uint8Array | undefined;
      readonly resumed: boolean;
      readonly nowMs: number;
    }
  | {
      readonly kind: "heartbeat";
      readonly connection: number;
      readonly runningExecIds: readonly string[];
      readonly nowMs: number;
    }
  /** Of a client that is attached to another node. */
  | { readonly kind: "letter"; readonly said: Said; readonly nowMs: number }
  /** The turn is over in which a commit was due. */
  | { readonly kind: "gathered" }
  | { readonly kind: "emit" }
  | { readonly kind: "end"; readonly reason: EndReason }
  | { readonly kind: "trim"; readonly eventFloor: number }
  | { readonly kind: "committed"; readonly nowMs: number }
  /** What the turn asked of its client, and what the client answered: of a commit, or read back. */
  | Extract<turnStall.Input, { kind: "logged" }>
  /** `durability_lost`: the store failed; `moved`: another host runs the stream; `shutdown`: we stop; `bug`: ours. */
  | { readonly kind: "drop"; readonly reason: DropReason }
  | { readonly kind: "tick"; readonly nowMs: number };

/** What the client of another node says to this host. */
export type Said =
  /** The writer epoch that the other node has drawn for it; 0 when it has one. */
  | { readonly kind: "attach"; readonly frame: AttachFrame; readonly writerEpoch: number }
  | {
      readonly kind: "chunk";
      readonly seqno: number;
      readonly writerEpoch: number;
      readonly mac: Uint8Array;
      readonly bytes: number;
      readonly isClose: boolean;
    }
  | { readonly kind: "abort" };

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
    case "letter":
      return letter(state, input);
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
      // The end stays for a late client (B6). While a turn runs its application may have to be rebuilt from the whole log.
      const isRunning = state.staged.end === undefined;
      if (isRunning || eventFloor === state.staged.eventFloor) return [state, []];
      return commitNext(stage(state, 0, 0, { eventFloor }), []);
    }
    case "gathered":
      assert(state.isGathering, "only a commit that is due is gathered");
      return commitNow(state, []);
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
  const replaced: number[] = [];
  let readers = 0;
  for (const [number, one] of state.attached) {
    if (one.role === "reader") readers++;
    else if (frame.role === "writer" && one.journalId === frame.journalId) replaced.push(number);
  }
  const admission = admit(frame, state.staged, state.durable, readers);
  if (admission.kind === "refuse") {
    // A client that is turned away for good does not reconnect to see whether its abort was recorded.
    const isPending = frame.abort && state.staged.aborted && !state.durable.aborted;
    if (isPending) return refuse(state, connection, "unavailable", "the abort is being recorded; reconnect");
    return refuse(state, connection, admission.code, admission.message);
  }

  let next = replaced.reduce((left, old) => detach(left, old), state);
  const effects: Effect[] = replaced.map((old) => ({ kind: "disconnect", connection: old }));
  if (admission.kind === "new_writer") {
    const [begun, told] = beginWriter(next, admission, next.staged.writerEpoch + 1);
    next = begun;
    effects.push(...told);
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

function beginWriter(
  state: State,
  { writers, isTakeover }: Extract<Admission, { kind: "new_writer" }>,
  writerEpoch: number,
): Step {
  const { nextSeqno: sinceSeqno, eventHead: sinceEvent } = state.staged;
  const told: readonly Effect[] = isTakeover ? [{ kind: "tell_takeover", sinceSeqno, sinceEvent }] : [];
  return [stage(state, 0, 0, { writer: { writers, writerEpoch } }), told];
}

/**
 * A letter of another node, with a frame of one of its clients. That node answers the client, by what it reads of this stream. Here the frame is taken
 * or ignored; the other node posts a letter again while the stream does not show it.
 */
function letter(state: State, { said, nowMs }: Extract<Input, { kind: "letter" }>): Step {
  switch (said.kind) {
    case "attach": {
      const { frame, writerEpoch } = said;
      const admission = admit(frame, state.staged, state.durable, 0);
      const isNew = admission.kind === "new_writer" && writerEpoch > state.staged.writerEpoch;
      const wanted = frame.role === "writer" ? { ...state, wantedMs: nowMs } : state;
      return isNew ? commitNext(...beginWriter(wanted, admission, writerEpoch)) : [wanted, []];
    }
    case "chunk": {
      const isLate = said.writerEpoch !== state.staged.writerEpoch || state.staged.end !== undefined;
      if (isLate) return [state, []];
      const [next, effects] = inbox.step(state.inbox, said);
      const accepted = effects.find((effect) => effect.kind === "accept");
      if (accepted === undefined) return [state, []];
      const { seqno, isClose } = accepted;
      const staged = stage({ ...state, inbox: next }, 1, 0, isClose ? { closed: true } : {});
      return commitNext(staged, [{ kind: "stage_chunk", seqno, isClose }]);
    }
    case "abort":
      return commitNext(...abort(state, nowMs));
    default:
      return unreachable(said);
  }
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
  const [next, [effect]] = life.step(state.life, input);
  // An event leaves a life as it is.
  const lived = next === state.life ? state : { ...state, life: next };
  switch (effect?.kind) {
    case undefined:
      return [lived, []];
    case "record_abort":
      return [stage(lived, 0, 0, { aborted: true }), [{ kind: "tell_abort" }]];
    case "record_event":
      return [stage(lived, 0, 1, NO_CHANGE), [{ kind: "stage_event", end: undefined }]];
    case "record_end":
      return [stage(lived, 0, 1, { end: effect.reason }), [{ kind: "stage_event", end: effect.reason }]];
    case "refuse":
      return [lived, [{ kind: "refuse_event" }]];
  }
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

function tick(state: State, nowMs: number): Step {
  const [beaten, beats] = tickConnections(state, nowMs);
  let next = beaten;
  const effects: Effect[] = [...beats];
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
  const attendedMs = next.attached.size > 0 ? nowMs : (next.attendedMs ?? nowMs);
  next = { ...next, activeMs, attendedMs };
  const isStale = nowMs - activeMs > state.options.retention.retentionMs / 4;
  if (isStale && hasWriter(next, nowMs) && next.inFlight === undefined)
    next = stage(next, 0, 0, { touched: true });
  return commitNext(next, effects);
}

/** No client has been attached for a while, and no writer at another node is. */
export function isForsaken(state: State, nowMs: number): boolean {
  const { attached, attendedMs = nowMs, options } = state;
  return attached.size === 0 && !hasWriter(state, nowMs) && nowMs - attendedMs >= options.restMs;
}
