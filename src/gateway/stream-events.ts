/**
 * The events of an answer as its stream's log has them.
 *
 * The server of `--upstream-server` may be an older one, which joins neighbouring text when it reads a log back, and a reader may stand in the middle of what was
 * joined. Then the text is parted there again. Works for streams that run here, run elsewhere, and are over.
 */
import type { Client, ClientBlobStore } from "../client/index.ts";
import { type AgentServerMessage } from "../protocol/messages.ts";
import { cutOff, type HeardEvent, textEvent, textIn } from "./answer-memory.ts";
import { type AnswerDelta, type AnswerState, initAnswer, neededBlob, project } from "./openai/index.ts";
import { decodeServer } from "../turn/messages.ts";

/** The way to a stream's log. */
export interface StreamSource {
  readonly client: Pick<Client, "follow">;
  readonly blobs: ClientBlobStore;
  readonly streamId: string;
  /** Aborted when the events are not wanted any more. */
  readonly signal: AbortSignal;
}

export interface AnswerPlace {
  /** The answer begins after this event. */
  readonly fromEvent: number;
  /** What the reader has already; at least `fromEvent`. */
  readonly seenThrough: number;
}

type Events = AsyncGenerator<HeardEvent, void>;

/** All events of the answer to the pause that ends it, with a border where the reader stands. */
export async function* answerEvents(source: StreamSource, { fromEvent, seenThrough }: AnswerPlace): Events {
  const all = untilPause(loggedEvents(source, fromEvent, initAnswer()));
  let state = initAnswer();
  let rest: Events | undefined;
  try {
    for await (const event of all) {
      const isInside = event.eventId > seenThrough && event.eventId - event.covers < seenThrough;
      if (!isInside) {
        [state] = project(state, event.eventId, event.message, event.blob);
        yield event;
        continue;
      }
      rest = untilPause(loggedEvents(source, seenThrough, state));
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
 * The joined text as two: what the reader has, and the rest. What is read from the reader's place on may be joined otherwise, and the stream may
 * have grown between the two reads, so both are read until they are at the same event.
 */
async function parted(
  joined: HeardEvent,
  all: Events,
  rest: Events,
  seenThrough: number,
): Promise<readonly HeardEvent[]> {
  const [whole, unseen]: [HeardEvent[], HeardEvent[]] = [[joined], []];
  for (;;) {
    const ahead = (whole.at(-1)?.eventId ?? 0) - (unseen.at(-1)?.eventId ?? seenThrough);
    if (ahead === 0) break;
    const next = await (ahead > 0 ? rest : all).next();
    // Both end with the answer.
    if (next.done === true) break;
    (ahead > 0 ? unseen : whole).push(next.value);
  }
  const kind = textIn(joined)?.case ?? "textDelta";
  const text = runOf(whole, kind);
  const seen = text.slice(0, text.length - runOf(unseen, kind).length);
  return [textEvent(kind, seenThrough, seen), ...unseen];
}

/** The text of that kind with which the events begin. */
function runOf(events: readonly HeardEvent[], kind: string): string {
  let text = "";
  for (const event of events) {
    const piece = textIn(event);
    if (piece?.case !== kind) break;
    text += piece.value.text;
  }
  return text;
}

async function* untilPause(events: Events): Events {
  for await (const event of events) {
    yield event;
    if (event.isPause) return;
  }
  throw cutOff();
}

/** What the stream says after an event, as it says it, to its end. `before`: the projection of what is before. */
async function* loggedEvents(source: StreamSource, after: number, before: AnswerState): Events {
  const { client, blobs, streamId, signal } = source;
  const reader = await client.follow(streamId, after);
  const leave = (): void => reader.leave();
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  let state = before;
  try {
    for await (const { eventId, body, covers } of reader.events) {
      if (body.length === 0) continue;
      const message = decodeServer(body);
      const id = neededBlob(state, message);
      const blob = id === undefined ? undefined : ((await blobs.get(id)) ?? (await reader.getBlob(id)));
      const [next, deltas] = project(state, eventId, message, blob);
      state = next;
      const isPause = deltas.some(isPauseDelta);
      yield { eventId, message, covers, isPause, ...(blob === undefined ? {} : { blob }) };
    }
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
}

export type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export function isPauseDelta(delta: AnswerDelta): delta is Pause {
  return delta.kind === "calls" || delta.kind === "ended";
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
  for await (const { eventId, message, isPause } of loggedEvents(source, 0, initAnswer())) {
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
