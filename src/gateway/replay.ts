/**
 * An answer read back from its stream's log, for a retry of what is over and for `GET /v1/streams/{id}/events`.
 *
 * The same projection as live, over what still holds: what was rolled back is left out. The tool call ids are the same ones.
 */
import { create, fromBinary } from "@bufbuild/protobuf";
import type { Client, ClientBlobStore, ClientStream } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { type AgentServerMessage, AgentServerMessageSchema } from "../protocol/messages.ts";
import type { Environment } from "../transport/environment.ts";
import type { Names } from "./names.ts";
import type { GatewayOptions } from "./options.ts";
import {
  type AnswerDelta,
  type AnswerEvent,
  type AnswerState,
  initAnswer,
  neededBlob,
  project,
  projectRange,
} from "./openai/index.ts";

/** Longer than any log takes to be read. */
const REPLAY_MS = 30_000;

/** What answers are read back with. */
export interface ReplayParts {
  readonly clientOf: GatewayOptions["clientOf"];
  readonly names: Names;
  readonly environment: Pick<Environment, "after">;
  /** Until what the stream said up to this event may be told. */
  readonly settled: (streamId: string, eventId: number) => Promise<void>;
}

export interface ReplayRange {
  readonly streamId: string;
  /** The answer begins after this event. */
  readonly fromEvent: number;
  /** What the client has already; at least `fromEvent`. */
  readonly seenThrough: number;
}

/** An answer as the log knows it. */
export interface LoggedAnswer {
  readonly fromEvent: number;
  readonly model: string;
}

export class Replays {
  readonly #parts: ReplayParts;

  constructor(parts: ReplayParts) {
    this.#parts = parts;
  }

  /** An answer, once it is whole; undefined when it is not to be had any more. */
  async whole(
    principal: string,
    range: ReplayRange,
    signal: AbortSignal,
  ): Promise<readonly AnswerDelta[] | undefined> {
    const late = new AbortController();
    const cancel = this.#parts.environment.after(REPLAY_MS, () => late.abort());
    const patience = AbortSignal.any([signal, late.signal]);
    try {
      const deltas: AnswerDelta[] = [];
      for await (const delta of this.told(principal, range, { through: Infinity, signal: patience }))
        deltas.push(delta);
      return deltas;
    } catch (cause) {
      if (cause instanceof HoldfastError) return undefined;
      throw cause;
    } finally {
      cancel();
    }
  }

  /**
   * An answer while it comes. What the stream has said through that event is read first, and told without what was rolled back
   * of it; what follows is told as it comes. Throws `not_found` for a stream that is not this principal's.
   */
  async *told(
    principal: string,
    range: ReplayRange,
    { through, signal }: { readonly through: number; readonly signal: AbortSignal },
  ): AsyncGenerator<AnswerDelta> {
    const context = this.#context(principal, range.streamId, signal);
    const { seenThrough } = range;
    const events = answerEvents(context, range);
    try {
      const known: AnswerEvent[] = [];
      while ((known.at(-1)?.eventId ?? range.fromEvent) < through) {
        const { done, value } = await events.next();
        if (done === true) break;
        known.push(value);
      }
      let { state, deltas } = projectRange(known, { seenThrough });
      yield* ready(context, deltas);
      let last = known.at(-1)?.eventId ?? range.fromEvent;
      for await (const { eventId, message, blob } of events) {
        last = eventId;
        [state, deltas] = project(state, eventId, message, blob);
        if (eventId > seenThrough) yield* ready(context, deltas);
      }
      if (seenThrough > last) throw placeAhead();
    } finally {
      await events.return();
    }
  }

  /**
   * The latest answer of a stream that is over. `named`: the answer that its client means. Throws `not_found` for a stream that is
   * not this principal's.
   */
  async latest(
    principal: string,
    streamId: string,
    { named, signal }: { readonly named: number | undefined; readonly signal: AbortSignal },
  ): Promise<LoggedAnswer> {
    const context = this.#context(principal, streamId, signal);
    let [fromEvent, model] = [0, ""];
    let asked: LoggedAnswer | undefined;
    let last: LoggedAnswer = { fromEvent, model };
    for await (const { eventId, message, isPause } of loggedEvents(context, 0, initAnswer())) {
      const begun = modelOf(message);
      if (begun !== undefined) {
        model = begun;
        asked = { fromEvent, model };
      }
      if (isPause) {
        last = { fromEvent, model };
        fromEvent = eventId;
      }
    }
    // A turn that is ended while it waits says so behind its last answer: only who asked for more has a use for that.
    return last.fromEvent === named ? last : (asked ?? last);
  }

  #context(principal: string, streamId: string, signal: AbortSignal): ReplayContext {
    const { clientOf, names, settled } = this.#parts;
    const { client, blobs } = clientOf(principal);
    return { client, blobs, names, streamId, settled: (eventId) => settled(streamId, eventId), signal };
  }
}

/** Never clamped: a client that says so is mistaken, and must not be told that it has all (B5). */
export function placeAhead(): HoldfastError {
  return new HoldfastError("event_ahead", "this Last-Event-ID was never sent; ask without it");
}

interface ReplayContext {
  readonly client: Client;
  readonly blobs: ClientBlobStore;
  readonly names: Names;
  readonly streamId: string;
  /** Until what the stream said up to this event may be told. */
  readonly settled: (eventId: number) => Promise<void>;
  /** Aborted when nobody waits for it any more. */
  readonly signal: AbortSignal;
}

export async function* told(deltas: readonly AnswerDelta[]): AsyncGenerator<AnswerDelta> {
  yield* deltas;
}

/** As clients are told of them, and not before they may be. */
async function* ready(
  { settled, names, streamId }: ReplayContext,
  deltas: readonly AnswerDelta[],
): AsyncGenerator<AnswerDelta> {
  for (const delta of deltas) {
    if (isEnd(delta)) await settled(delta.eventId);
    yield named(delta, names, streamId);
  }
}

function isEnd({ kind }: AnswerDelta): boolean {
  return kind === "calls" || kind === "ended";
}

function modelOf({ message }: AgentServerMessage): string | undefined {
  if (message.case !== "interactionUpdate" || message.value.message.case !== "stepStarted") return undefined;
  return message.value.message.value.model;
}

/** The events of the answer to the pause that ends it, parted where the client is. */
async function* answerEvents(context: ReplayContext, range: ReplayRange): AsyncGenerator<ReadEvent, void> {
  const { fromEvent, seenThrough } = range;
  const all = untilPause(loggedEvents(context, fromEvent, initAnswer()));
  const before: ReadEvent[] = [];
  let rest: AsyncGenerator<ReadEvent, void> | undefined;
  try {
    for (;;) {
      const { done, value: event } = await all.next();
      if (done === true) return;
      const isInside = event.eventId > seenThrough && event.eventId - event.covers < seenThrough;
      if (!isInside) {
        if (event.eventId <= seenThrough) before.push(event);
        yield event;
        continue;
      }
      rest = untilPause(loggedEvents(context, seenThrough, projected(before)));
      const pieces = await parted(event, all, rest, seenThrough);
      await all.return();
      yield* pieces;
      yield* rest;
      return;
    }
  } finally {
    await Promise.all([all.return(), rest?.return()]);
  }
}

/**
 * The place is inside of what was joined when it was read back: the text is parted there again. What is read from the place on
 * may be joined otherwise, and more may be said meanwhile, so both are read until they are at the same event.
 */
async function parted(
  joined: ReadEvent,
  all: AsyncGenerator<ReadEvent, void>,
  rest: AsyncGenerator<ReadEvent, void>,
  seenThrough: number,
): Promise<readonly ReadEvent[]> {
  const [whole, unseen]: [ReadEvent[], ReadEvent[]] = [[joined], []];
  for (;;) {
    const ahead = (whole.at(-1)?.eventId ?? 0) - (unseen.at(-1)?.eventId ?? seenThrough);
    if (ahead === 0) break;
    const next = await (ahead > 0 ? rest : all).next();
    // Both end with the answer.
    if (next.done === true) break;
    (ahead > 0 ? unseen : whole).push(next.value);
  }
  const run = runOf(whole);
  const seen = run.text.slice(0, run.text.length - runOf(unseen).text.length);
  return [{ ...run.piece(seenThrough, seen), covers: 1, isPause: false }, ...unseen];
}

interface ReadEvent extends AnswerEvent {
  /** How many events of the log it stands for. */
  readonly covers: number;
  /** An answer ends with it. */
  readonly isPause: boolean;
}

async function* untilPause(events: AsyncGenerator<ReadEvent, void>): AsyncGenerator<ReadEvent, void> {
  for await (const event of events) {
    yield event;
    if (event.isPause) return;
  }
  throw new HoldfastError("unavailable", "the answer was cut off; try again");
}

/** What the stream says after an event, as it says it, to its end. `state`: the projection of what is before. */
async function* loggedEvents(
  context: ReplayContext,
  after: number,
  before: AnswerState,
): AsyncGenerator<ReadEvent, void> {
  const { signal } = context;
  const reader = await context.client.follow(context.streamId, after);
  const leave = (): void => reader.leave();
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  let state = before;
  try {
    for await (const { eventId, body, covers } of reader.events) {
      if (body.length === 0) continue;
      const message = fromBinary(AgentServerMessageSchema, body);
      const blob = await blobFor(context, reader, state, message);
      const [next, deltas] = project(state, eventId, message, blob);
      state = next;
      yield {
        eventId,
        message,
        covers,
        isPause: deltas.some(isEnd),
        ...(blob === undefined ? {} : { blob }),
      };
    }
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
}

function projected(events: readonly ReadEvent[]): AnswerState {
  let state = initAnswer();
  for (const { eventId, message, blob } of events) [state] = project(state, eventId, message, blob);
  return state;
}

interface Run {
  readonly text: string;
  /** An event of the same kind with some of the text. */
  piece(eventId: number, text: string): AnswerEvent;
}

/** The text of the deltas of one kind with which the events begin. Only such are ever joined. */
function runOf(events: readonly AnswerEvent[]): Run {
  const [first] = events;
  const kind = first === undefined ? undefined : deltaOf(first)?.case;
  let text = "";
  for (const event of events) {
    const delta = deltaOf(event);
    if (delta === undefined || delta.case !== kind) break;
    text += delta.value.text;
  }
  const piece = (eventId: number, words: string): AnswerEvent => {
    const update = { case: kind ?? "textDelta", value: { text: words } } as const;
    const message = { case: "interactionUpdate", value: { message: update } } as const;
    return { eventId, message: create(AgentServerMessageSchema, { message }) };
  };
  return { text, piece };
}

function deltaOf({ message: { message } }: AnswerEvent) {
  if (message.case !== "interactionUpdate") return undefined;
  const update = message.value.message;
  return update.case === "textDelta" || update.case === "thinkingDelta" ? update : undefined;
}

async function blobFor(
  { blobs }: ReplayContext,
  reader: ClientStream,
  state: AnswerState,
  message: AgentServerMessage,
): Promise<Uint8Array | undefined> {
  const id = neededBlob(state, message);
  return id === undefined ? undefined : ((await blobs.get(id)) ?? reader.getBlob(id));
}

/** With the ids that clients know. */
export function named(delta: AnswerDelta, names: Names, streamId: string): AnswerDelta {
  if (delta.kind !== "calls") return delta;
  const calls = delta.calls.map((call) => ({ ...call, callId: names.toolId(streamId, call.execId) }));
  return { ...delta, calls };
}
