/**
 * Everything a node decides about a stream that another node runs, and that clients of this one are attached to.
 *
 * It reads what the store says of the stream, as often as its driver looks, and treats it as its host treats a commit: acks, welcomes and events
 * go out for what is durable. It writes nothing to the stream. What its clients say is posted to the host as letters, and posted again while
 * the stream does not show it. When the lease is over it tells the clients to reconnect: the next attach makes some node the host.
 *
 * Invariant: whatever a client gets was read from the store before (A3, B2), and a node that does not hold the lease writes to no log (D1).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { AttachFrame, ServerFrame } from "../protocol/frames.ts";
import { unreachable } from "../protocol/assert.ts";
import { admit } from "./attach.ts";
import * as host from "./host-state.ts";
import * as inbox from "./inbox.ts";
import type { StreamState } from "./stream-state.ts";

export interface Options {
  /** A letter that the stream does not show after so long is posted again: it was lost, or its host could not take it. */
  readonly repostMs: number;
  /** A writer whose epoch does not begin for so long is sent away to try again. */
  readonly askMs: number;
}

export const DEFAULTS: Options = { repostMs: 5_000, askMs: 20_000 };

/** A connection whose host has not been seen to do what its attach asks for. */
interface Asking {
  readonly frame: AttachFrame;
  readonly canRun: boolean;
  readonly sinceMs: number;
}

export interface State {
  readonly options: Options;
  /** The connections, and the stream as it was last seen: nothing is ever staged. */
  readonly host: host.State;
  readonly asking: ReadonlyMap<number, Asking>;
  /** Connections that want more than to read what the log has: while there is one, and the stream has not ended, some node must run it. */
  readonly wanting: ReadonlySet<number>;
  /** The last attach that a host could run the turn with. */
  readonly knock: AttachFrame | undefined;
  readonly isAbortWanted: boolean;
  /** When something was last posted. */
  readonly postedMs: number;
  /** When the stream was last seen to move, or its host was last asked to look whether the turn runs. */
  readonly movedMs: number;
}

export type Input =
  | host.ConnectionInput
  | {
      readonly kind: "attach";
      readonly connection: number;
      readonly frame: AttachFrame;
      readonly firstMac: Uint8Array | undefined;
      /** With what this client has brought, a host could run the turn. */
      readonly canRun: boolean;
      /** Drawn for this attach: a writer epoch so much above the last is no other's. */
      readonly draw: number;
      readonly nowMs: number;
    }
  | { readonly kind: "heartbeat"; readonly connection: number; readonly nowMs: number }
  /** What the store says. `isHeld`: another node's lease runs. `macs` are those of chunks that were not durable before. */
  | {
      readonly kind: "seen";
      readonly stream: StreamState;
      readonly macs: readonly Uint8Array[];
      readonly isHeld: boolean;
      readonly nowMs: number;
    }
  | { readonly kind: "drop"; readonly reason: host.DropReason }
  | { readonly kind: "tick"; readonly nowMs: number };

export type Effect =
  | { readonly kind: "send"; readonly connection: number; readonly frame: ServerFrame }
  | { readonly kind: "read"; readonly connection: number; readonly from: number }
  | { readonly kind: "disconnect"; readonly connection: number }
  /** The writer epoch is the one that is to begin, 0 for none. A host that does not run the turn gives the stream up for a client with which another can. */
  | ({ readonly kind: "post_attach"; readonly writerEpoch: number } & Pick<Asking, "frame" | "canRun">)
  /** The chunk in hand: keep it until it is durable. */
  | { readonly kind: "keep_chunk"; readonly seqno: number }
  | { readonly kind: "post_chunk"; readonly seqno: number }
  | { readonly kind: "post_abort" }
  | { readonly kind: "dropped" };

export type Step = readonly [State, readonly Effect[]];

const WRITER_EPOCH_MAX = 2 ** 32 - 1;

export function init(
  options: Options,
  hostOptions: host.Options,
  durability: host.State["durability"],
  stream: StreamState,
  macs: readonly Uint8Array[],
): State {
  return {
    options,
    host: host.init(hostOptions, durability, stream, macs),
    asking: new Map(),
    wanting: new Set(),
    knock: undefined,
    isAbortWanted: false,
    postedMs: 0,
    movedMs: 0,
  };
}

export function step(state: State, input: Input): Step {
  if (state.host.dropped) return [state, []];
  switch (input.kind) {
    case "attach":
      return attach(state, input);
    case "chunk":
      return chunk({ ...state, host: host.heard(state.host, input.connection, input.nowMs) }, input);
    case "abort":
      return abort({ ...state, host: host.heard(state.host, input.connection, input.nowMs) }, input.nowMs);
    case "heartbeat":
      return [{ ...state, host: host.heard(state.host, input.connection, input.nowMs) }, []];
    case "closed":
      return within(state, [host.detach(state.host, input.connection), []]);
    case "sender":
      return within(state, host.senderStep(state.host, input.connection, input.input));
    case "refuse":
      return within(state, host.refuse(state.host, input.connection, input.code, input.message));
    case "seen":
      return seen(state, input);
    case "drop":
      return drop(state, input.reason);
    case "tick":
      return tick(state, input.nowMs);
    default:
      return unreachable(input);
  }
}

/** A step of the connections, which has effects of connections only. Those that are gone ask for nothing. */
function within(state: State, [next, effects]: host.Step): Step {
  const asking = new Map([...state.asking].filter(([connection]) => next.attached.has(connection)));
  const wanting = new Set([...state.wanting].filter((connection) => next.attached.has(connection)));
  return [{ ...state, host: next, asking, wanting }, connectionEffects(effects)];
}

function attach(state: State, input: Extract<Input, { kind: "attach" }>): Step {
  const { connection, frame, canRun, draw, nowMs } = input;
  const [stopping, stops] = frame.abort ? abort(state, nowMs) : [state, []];
  const { durable } = stopping.host;
  const readers = [...stopping.host.attached.values()].filter((one) => one.role === "reader").length;
  const admission = admit(frame, durable, durable, readers);
  if (admission.kind === "refuse") {
    const isPending = frame.abort && !durable.aborted && durable.end === undefined;
    const [code, message]: readonly [ErrorCode, string] = isPending
      ? ["unavailable", "the abort is being recorded; reconnect"]
      : [admission.code, admission.message];
    return also(stops, within(stopping, host.refuse(stopping.host, connection, code, message)));
  }
  const replaced = [...stopping.host.attached].filter(
    ([, one]) => frame.role === "writer" && one.role === "writer" && one.journalId === frame.journalId,
  );
  let left = replaced.reduce((now, [old]) => host.detach(now, old), stopping.host);
  const cut: readonly Effect[] = replaced.map(([old]) => ({ kind: "disconnect", connection: old }));
  const isNew = admission.kind === "new_writer";
  const begun = durable.writerEpoch + 2 + draw;
  if (begun > WRITER_EPOCH_MAX) {
    const full = "this stream has been taken over too often";
    return also(stops, within(stopping, host.refuse(stopping.host, connection, "overloaded", full)));
  }
  const writerEpoch = frame.role === "reader" ? 0 : isNew ? begun : durable.writerEpoch;
  const { role, journalId, eventId } = frame;
  left = host.put(left, connection, {
    role,
    journalId,
    writerEpoch,
    eventId,
    resumed: true,
    sinceMs: nowMs,
    heardMs: nowMs,
    execIds: undefined,
    sender: undefined,
  });
  const asks = { ...frame, firstChunk: undefined, abort: false };
  const [welcomed, greetings] = within(stopping, host.welcomeReady(left, nowMs));
  const next: State = {
    ...welcomed,
    asking: isNew
      ? new Map(welcomed.asking).set(connection, { frame: asks, canRun, sinceMs: nowMs })
      : welcomed.asking,
    wanting: wantsHost(frame, canRun) ? new Set([...welcomed.wanting, connection]) : welcomed.wanting,
    knock: canRun ? asks : welcomed.knock,
    postedMs: nowMs,
    movedMs: nowMs,
  };
  const isKnock = canRun && durable.end === undefined;
  const asked = isNew ? writerEpoch : 0;
  const post: readonly Effect[] =
    isNew || isKnock ? [{ kind: "post_attach", frame: asks, canRun: isKnock, writerEpoch: asked }] : [];
  const effects = [...stops, ...cut, ...greetings, ...post];
  if (input.firstMac === undefined) return [next, effects];
  const bytes = frame.firstChunk?.length ?? 0;
  const first = { connection, seqno: 0, writerEpoch, mac: input.firstMac, bytes, isClose: false, nowMs };
  return also(effects, chunk(next, first));
}

function chunk(state: State, input: Omit<Extract<Input, { kind: "chunk" }>, "kind">): Step {
  const { connection, nowMs } = input;
  const { durable, attached } = state.host;
  const one = attached.get(connection);
  if (one === undefined) return [state, []];
  if (one.role !== "writer") {
    return within(state, host.refuse(state.host, connection, "invalid_frame", "a reader has nothing to say"));
  }
  if (input.writerEpoch !== one.writerEpoch || one.writerEpoch < durable.writerEpoch) {
    return within(state, host.fence(state.host, connection));
  }
  if (durable.end !== undefined && !inbox.isOther(state.host.inbox, input)) return [state, []];
  const [box, effects] = inbox.step(state.host.inbox, { ...input, kind: "chunk" });
  const next: State = { ...state, host: { ...state.host, inbox: box } };
  const [effect] = effects;
  switch (effect?.kind) {
    case undefined:
      return [next, []];
    case "accept": {
      const { seqno } = effect;
      const posts: readonly Effect[] = [
        { kind: "keep_chunk", seqno },
        { kind: "post_chunk", seqno },
      ];
      return [{ ...next, postedMs: nowMs }, posts];
    }
    case "ack":
      return [next, [{ kind: "send", connection, frame: { kind: "ack", seqno: effect.seqno } }]];
    case "refuse":
      return within(next, host.refuse(next.host, connection, effect.code, effect.message));
  }
}

function abort(state: State, nowMs: number): Step {
  const { aborted, end } = state.host.durable;
  if (aborted || end !== undefined || state.isAbortWanted) return [state, []];
  return [{ ...state, isAbortWanted: true, postedMs: nowMs }, [{ kind: "post_abort" }]];
}

function seen(state: State, input: Extract<Input, { kind: "seen" }>): Step {
  const { stream, macs, isHeld, nowMs } = input;
  const { durable } = state.host;
  // Two questions may be answered in the other order.
  const isOld =
    stream.hostEpoch < durable.hostEpoch ||
    stream.writerEpoch < durable.writerEpoch ||
    stream.nextSeqno < durable.nextSeqno ||
    stream.eventHead < durable.eventHead ||
    stream.eventFloor < durable.eventFloor;
  if (isOld) return [state, []];
  if (!isHeld && needsHost(state, stream)) return drop(state, "moved");
  const isNewWriter = stream.writerEpoch > durable.writerEpoch;
  const own = isNewWriter ? inbox.forget(state.host.inbox, durable.closed) : state.host.inbox;
  const [box, judged] = inbox.step(own, {
    kind: "found",
    nextSeqno: stream.nextSeqno,
    macs,
    closed: stream.closed,
  });
  const moved = { ...state.host, durable: stream, staged: stream, inbox: box };
  const [unoutdone, sorry] = within(state, outdone(moved));
  const [weeded, refusals] = within(unoutdone, host.weedOut(unoutdone.host));
  let next = weeded;
  const effects: Effect[] = [...sorry, ...refusals];
  const isAborted = stream.aborted && !durable.aborted;
  for (const [connection, one] of weeded.host.attached) {
    if (one.sender === undefined) continue;
    for (const effect of judged) {
      if (one.role !== "writer") continue;
      if (effect.kind === "ack") effects.push({ kind: "send", connection, frame: effect });
      if (effect.kind === "refuse") {
        const [left, told] = within(next, host.refuse(next.host, connection, effect.code, effect.message));
        next = left;
        effects.push(...told);
      }
    }
    if (isAborted) effects.push(...connectionEffects([host.heartbeatTo(connection, one.sender, stream)]));
    const head = { kind: "head", eventHead: stream.eventHead } as const;
    const [sending, reads] = within(next, host.senderStep(next.host, connection, head));
    next = sending;
    effects.push(...reads);
  }
  const [welcomed, greetings] = within(next, host.welcomeReady(next.host, nowMs));
  effects.push(...greetings);
  const asking = new Map(
    [...welcomed.asking].filter(([id]) => welcomed.host.attached.get(id)?.sender === undefined),
  );
  const isAbortWanted = welcomed.isAbortWanted && !stream.aborted && stream.end === undefined;
  const hasMoved = stream.eventHead > durable.eventHead || stream.nextSeqno > durable.nextSeqno;
  const movedMs = hasMoved ? nowMs : welcomed.movedMs;
  const settled = { ...welcomed, asking, isAbortWanted, movedMs };
  if (stream.hostEpoch === durable.hostEpoch) return [settled, effects];
  // No node reads letters to the host before.
  return also([...effects, ...knock(settled)], post(settled, nowMs));
}

/** Whether an attach wants something that only a host can do: to run the turn, to write, to stop it. */
export function wantsHost(frame: AttachFrame, canRun: boolean): boolean {
  return canRun || frame.role === "writer" || frame.abort;
}

/** A stream that has ended is only read, unless a new writer is to be recorded. */
function needsHost(state: State, { end }: StreamState): boolean {
  return state.asking.size > 0 || (end === undefined && state.wanting.size > 0);
}

/** Another writer's epoch has begun instead of the one that was asked for: its client was no writer yet, so it may ask again. */
function outdone(state: host.State): host.Step {
  let next = state;
  const effects: host.Effect[] = [];
  for (const [connection, one] of state.attached) {
    if (one.sender !== undefined || one.role !== "writer" || one.writerEpoch >= state.durable.writerEpoch)
      continue;
    const message = "another client has just taken this stream over; reconnect";
    const [left, refusal] = host.refuse(next, connection, "unavailable", message);
    next = left;
    effects.push(...refusal);
  }
  return [next, effects];
}

function tick(state: State, nowMs: number): Step {
  const [ticked, beats] = within(state, host.tickConnections(state.host, nowMs));
  let next = ticked;
  const effects: Effect[] = [...beats];
  for (const [connection, { sinceMs }] of ticked.asking) {
    if (nowMs - sinceMs < state.options.askMs) continue;
    const message = "the node that runs this stream does not answer; reconnect";
    const [left, refusal] = within(next, host.refuse(next.host, connection, "unavailable", message));
    next = left;
    effects.push(...refusal);
  }
  if (nowMs - next.movedMs >= state.options.askMs) {
    effects.push(...knock(next));
    next = { ...next, movedMs: nowMs };
  }
  return nowMs - next.postedMs < state.options.repostMs ? [next, effects] : also(effects, post(next, nowMs));
}

/** Makes a host that does not run the turn give the stream up. Repeated while nothing moves: a word that was lost must not leave it with a host that waits. */
function knock(state: State): readonly Effect[] {
  const { knock: frame, host: connections } = state;
  if (frame === undefined || !needsHost(state, connections.durable)) return [];
  return [{ kind: "post_attach", frame, canRun: true, writerEpoch: 0 }];
}

/** Everything that the stream does not show yet, in the order in which it was said. */
function post(state: State, nowMs: number): Step {
  const { attached, inbox: box } = state.host;
  const effects: Effect[] = [];
  if (state.isAbortWanted) effects.push({ kind: "post_abort" });
  for (const [connection, { frame, canRun }] of state.asking) {
    const { writerEpoch = 0 } = attached.get(connection) ?? {};
    effects.push({ kind: "post_attach", frame, canRun, writerEpoch });
  }
  for (let seqno = box.durable; seqno < box.next; seqno++) effects.push({ kind: "post_chunk", seqno });
  return [effects.length === 0 ? state : { ...state, postedMs: nowMs }, effects];
}

function drop(state: State, reason: host.DropReason): Step {
  const [dropped, effects] = host.drop(state.host, reason);
  return [
    { ...state, host: dropped, asking: new Map() },
    [...connectionEffects(effects), { kind: "dropped" }],
  ];
}

function connectionEffects(effects: readonly host.Effect[]): readonly Effect[] {
  return effects.flatMap((effect) =>
    effect.kind === "send" || effect.kind === "read" || effect.kind === "disconnect" ? [effect] : [],
  );
}

function also(before: readonly Effect[], [state, effects]: Step): Step {
  return [state, [...before, ...effects]];
}
