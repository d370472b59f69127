/**
 * An answer read back from its stream's log, for a retry of what is over and for `GET /v1/streams/{id}/events`.
 *
 * The same projection as live, over what still holds: what was rolled back is left out. The tool call ids are the same ones.
 */
import { create, fromBinary } from "@bufbuild/protobuf";
import type { Client, ClientBlobStore, ClientStream } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { type AgentServerMessage, AgentServerMessageSchema } from "../protocol/messages.ts";
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
  /** Until what the stream said up to this event may be told. */
  readonly settled: (streamId: string, eventId: number) => Promise<void>;
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
    const patience = AbortSignal.any([signal, AbortSignal.timeout(REPLAY_MS)]);
    try {
      return await readAnswer(this.#context(principal, range, patience), range);
    } catch (cause) {
      if (cause instanceof HoldfastError) return undefined;
      throw cause;
    }
  }

  /** The same, for who waits until it is whole. */
  async *told(principal: string, range: ReplayRange, signal: AbortSignal): AsyncGenerator<AnswerDelta> {
    yield* await readAnswer(this.#context(principal, range, signal), range);
  }

  #context(principal: string, { streamId }: ReplayRange, signal: AbortSignal): ReplayContext {
    const { clientOf, names, settled } = this.#parts;
    const { client, blobs } = clientOf(principal);
    return { client, blobs, names, settled: (eventId) => settled(streamId, eventId), signal };
  }
}

interface ReplayContext {
  readonly client: Client;
  readonly blobs: ClientBlobStore;
  readonly names: Names;
  /** Until what the stream said up to this event may be told. */
  readonly settled: (eventId: number) => Promise<void>;
  /** Aborted when nobody waits for it any more. */
  readonly signal: AbortSignal;
}

export interface ReplayRange {
  readonly streamId: string;
  /** The answer begins after this event; undefined: the answer that `seenThrough` is part of. */
  readonly fromEvent: number | undefined;
  /** What the client has already. */
  readonly seenThrough: number;
}

/** All of an answer, once it is whole. Throws `not_found` for a stream that is not this principal's. */
async function readAnswer(context: ReplayContext, range: ReplayRange): Promise<readonly AnswerDelta[]> {
  const { streamId, seenThrough } = range;
  const events = await answerEvents(context, range);
  const last = events.at(-1)?.eventId ?? 0;
  if (last > seenThrough) await context.settled(last);
  const { deltas } = projectRange(events, { seenThrough });
  return deltas.map((delta) => named(delta, context.names, streamId));
}

export async function* told(deltas: readonly AnswerDelta[]): AsyncGenerator<AnswerDelta> {
  yield* deltas;
}

/** The events from the pause before to the pause that ends it. */
async function answerEvents(
  context: ReplayContext,
  { streamId, fromEvent, seenThrough }: ReplayRange,
): Promise<readonly AnswerEvent[]> {
  const isIt = (eventId: number): boolean =>
    fromEvent === undefined ? eventId >= seenThrough : eventId > fromEvent;
  const events = await readEvents(context, { streamId, after: 0, state: initAnswer(), isIt });
  const at = events.findIndex(
    ({ eventId, covers }) => eventId > seenThrough && eventId - covers < seenThrough,
  );
  if (at === -1) return events;
  // The place is inside of what was joined when it was read back: the text is parted there again.
  const before = projected(events.slice(0, at));
  const rest = await readEvents(context, { streamId, after: seenThrough, state: before, isIt });
  const joined = runOf(events.slice(at));
  const seen = joined.text.slice(0, joined.text.length - runOf(rest).text.length);
  return [...events.slice(0, at), joined.piece(seenThrough, seen), ...rest];
}

interface ReadEvent extends AnswerEvent {
  /** How many events of the log it stands for. */
  readonly covers: number;
}

interface Reading {
  readonly streamId: string;
  readonly after: number;
  /** The projection of what is before. */
  readonly state: AnswerState;
  /** Whether the answer that ends at this event is the one that is looked for. */
  readonly isIt: (eventId: number) => boolean;
}

async function readEvents(context: ReplayContext, reading: Reading): Promise<readonly ReadEvent[]> {
  const { signal } = context;
  const reader = await context.client.follow(reading.streamId, reading.after);
  const leave = (): void => reader.leave();
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  let events: ReadEvent[] = [];
  let { state } = reading;
  try {
    for await (const { eventId, body, covers } of reader.events) {
      if (body.length === 0) continue;
      const message = fromBinary(AgentServerMessageSchema, body);
      const blob = await blobFor(context, reader, state, message);
      events.push({ eventId, message, covers, ...(blob === undefined ? {} : { blob }) });
      const [next, deltas] = project(state, eventId, message, blob);
      state = next;
      if (!deltas.some(({ kind }) => kind === "calls" || kind === "ended")) continue;
      if (reading.isIt(eventId)) return events;
      events = [];
    }
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
  throw new HoldfastError("unavailable", "the answer was cut off; try again");
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
