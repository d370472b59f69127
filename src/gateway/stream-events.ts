/**
 * The events of an answer as its stream's log has them.
 *
 * The same for streams that run here, run elsewhere, and are over.
 */
import { ChangeSignal } from "../async/change-signal.ts";
import type { Client, ClientStream, StreamEvent } from "../client/index.ts";
import { type AgentServerMessage } from "../protocol/messages.ts";
import { cutOff, type HeardEvent } from "./answer-memory.ts";
import { type AnswerDelta, initAnswer, neededBlob, project } from "./openai/index.ts";
import { decodeServer } from "../turn/messages.ts";

/** The way to a stream's log. */
export interface StreamSource {
  readonly client: Pick<Client, "follow">;
  readonly streamId: string;
  /** Aborted when the events are not wanted any more. */
  readonly signal: AbortSignal;
  /** Only what the log has: it is not waited for more, and a turn that was cut off is not generated again for this (G7). */
  readonly isPast: boolean;
}

type Events = AsyncGenerator<HeardEvent, void>;

/** All events of the answer to the pause that ends it. Throws `unavailable` when the stream ends before that. */
export async function* answerEvents(source: StreamSource, fromEvent: number): Events {
  for await (const event of loggedEvents(source, fromEvent)) {
    yield event;
    if (event.isPause) return;
  }
  throw cutOff();
}

/** What a reader learns beside the events. */
interface LogNews {
  /** Where the log ended when the reader came. */
  welcomed(head: number): void;
  /** Also of events that say nothing. */
  heard(eventId: number): void;
}

/** What the stream says after an event, as it says it, to its end. */
export async function* loggedEvents(source: StreamSource, after: number, news?: LogNews): Events {
  const { client, streamId, signal, isPast } = source;
  const reader = await client.follow(streamId, after, { peek: isPast });
  const unwatch = onWelcome(reader, (head) => news?.welcomed(head));
  const leave = (): void => reader.leave();
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  let state = initAnswer();
  try {
    for await (const { eventId, body } of isPast ? pastEvents(reader, after) : reader.events) {
      if (body.length === 0) {
        news?.heard(eventId);
        continue;
      }
      const message = decodeServer(body);
      const id = neededBlob(state, message);
      const blob = id === undefined ? undefined : await reader.getBlob(id);
      const [next, deltas] = project(state, eventId, message, blob);
      state = next;
      const isPause = deltas.some(isPauseDelta);
      yield { eventId, message, isPause, ...(blob === undefined ? {} : { blob }) };
    }
  } finally {
    signal.removeEventListener("abort", leave);
    unwatch();
    leave();
  }
}

/** Calls `learn` once with where the log ended at the first welcome; returns how to cancel it. */
export function onWelcome(
  stream: Pick<ClientStream, "status" | "watch">,
  learn: (head: number) => void,
): () => void {
  const look = (): void => {
    const { headAtWelcome } = stream.status;
    if (headAtWelcome === undefined) return;
    unwatch();
    learn(headAtWelcome);
  };
  const unwatch = stream.watch(look);
  look();
  return unwatch;
}

/** What the log of a stream had when its reader came. Throws what refused the reader. */
export async function* pastEvents(
  reader: Pick<ClientStream, "events" | "status" | "watch">,
  after: number,
): AsyncGenerator<StreamEvent, void> {
  const changes = new ChangeSignal();
  const unwatch = reader.watch(() => changes.notify());
  await changes.until(() => reader.status.headAtWelcome !== undefined || reader.status.state === "ended");
  unwatch();
  const { headAtWelcome = Infinity } = reader.status;
  if (headAtWelcome <= after) return;
  for await (const event of reader.events) {
    yield event;
    if (event.eventId >= headAtWelcome) return;
  }
}

export type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export function isPauseDelta(delta: AnswerDelta): delta is Pause {
  return delta.kind === "calls" || delta.kind === "ended";
}

/** True when the log has the whole answer, whatever its rows say of it. */
export async function isWhole(
  client: StreamSource["client"],
  { streamId, fromEvent }: { readonly streamId: string; readonly fromEvent: number },
  signal: AbortSignal,
): Promise<boolean> {
  const source = { client, streamId, signal, isPast: true };
  for await (const { isPause } of loggedEvents(source, fromEvent)) if (isPause) return true;
  return false;
}

/** True when the turn was stopped while it waited for the results of the calls in this event. */
export async function isStoppedBehind(source: StreamSource, calls: number): Promise<boolean> {
  for await (const { eventId, message, isPause } of loggedEvents(source, calls)) {
    if (modelOf(message) !== undefined) return false;
    if (!isPause) continue;
    const [, deltas] = project(initAnswer(), eventId, message);
    return deltas.some((delta) => delta.kind === "ended" && delta.reason === "aborted");
  }
  return false;
}

/** An answer as the log knows it. */
export interface LoggedAnswer {
  readonly fromEvent: number;
  readonly model: string;
}

/**
 * The latest answer of a stream that is over. `named`: the answer that its client means. Throws `not_found` for a stream that is
 * not this principal's.
 */
export async function latestAnswer(source: StreamSource, named: number | undefined): Promise<LoggedAnswer> {
  let [fromEvent, model] = [0, ""];
  let asked: LoggedAnswer | undefined;
  let last: LoggedAnswer = { fromEvent, model };
  for await (const { eventId, message, isPause } of loggedEvents(source, 0)) {
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
  // A turn that is ended while it waits says so behind its last answer. Only a client that asked for more has a use for that.
  return last.fromEvent === named ? last : (asked ?? last);
}

function modelOf({ message }: AgentServerMessage): string | undefined {
  if (message.case !== "interactionUpdate" || message.value.message.case !== "stepStarted") return undefined;
  return message.value.message.value.model;
}
