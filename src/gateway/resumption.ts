/**
 * `GET /v1/streams/{id}/events`: an answer for a client that lost its connection.
 *
 * A stream has an answer for each request of a tool loop. Without an id the latest is meant. An id names its answer: one of another answer
 * is refused, because the rest of the latest would be no continuation of what that client has.
 *
 * Such a client counts as a reader of the running answer, also while the gateway reads it from the log.
 */
import { answerRef, responseOf } from "./answer-ref.ts";
import type { Answer, EventsCall } from "./http/answers.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { LiveTurn } from "./live-turn.ts";
import { otherAnswer } from "./refusals.ts";
import { placeAhead, type Replays } from "./replay.ts";
import type { AnswerDelta } from "./openai/index.ts";
import type { Retries } from "./retries.ts";
import type { AnswerRef } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";

export interface ResumptionParts {
  readonly live: LiveSessions;
  readonly store: Pick<SessionStore, "byStream">;
  readonly replays: Replays;
  readonly retries: Pick<Retries, "recall" | "responding">;
  /** How long a stream may take to be read back after a restart. */
  readonly catchUpMs: number;
  readonly now: () => number;
}

export async function resumeAnswer(parts: ResumptionParts, call: EventsCall): Promise<Answer> {
  const { principal, streamId, after, signal } = call;
  const found = parts.live.get(streamId);
  const session = found?.record.principal === principal ? found : undefined;
  await session?.turn.caughtUp(parts.catchUpMs);
  const kept = session === undefined ? await parts.store.byStream(principal, streamId) : undefined;
  await parts.retries.recall((session?.record ?? kept)?.responses ?? []);
  // The session may have gone on to its next answer meanwhile.
  const answer = (session?.record ?? kept)?.answer ?? (await loggedAnswer(parts, call));
  const { fromEvent } = answer;
  if (after !== undefined && after.answer !== fromEvent) throw otherAnswer();
  const seenThrough = after?.eventId ?? fromEvent;
  if (session === undefined || session.turn.isOver) {
    const range = { streamId, fromEvent, seenThrough };
    const deltas = parts.replays.told(principal, range, { through: Infinity, signal });
    return responseOf(answer, deltas, parts.retries.responding(answer));
  }
  const { turn } = session;
  if (!turn.mayHaveSaid(seenThrough)) throw placeAhead();
  return runningAnswer(parts, turn, { principal, answer, seenThrough, signal });
}

export interface RunningAnswer {
  readonly principal: string;
  readonly answer: AnswerRef;
  readonly seenThrough: number;
  readonly signal: AbortSignal;
}

/** What the turn says of its answer behind that place: from memory, or from the log where memory has joined or left out what was there. */
export function runningAnswer(
  { replays, retries }: Pick<ResumptionParts, "replays" | "retries">,
  turn: LiveTurn,
  { principal, answer, seenThrough, signal }: RunningAnswer,
): Answer {
  const response = (deltas: AsyncIterableIterator<AnswerDelta>): Answer =>
    responseOf(answer, deltas, retries.responding(answer));
  if (turn.canGoOnFrom(seenThrough)) return response(turn.read(seenThrough));
  const { streamId, fromEvent } = answer;
  const range = { streamId, fromEvent, seenThrough };
  const leave = turn.attend();
  const replayed = response(replays.told(principal, range, { through: turn.heardThrough, signal }));
  const delivered = (isWhole: boolean): void => {
    leave();
    replayed.delivered(isWhole);
  };
  return { ...replayed, delivered };
}

/** Of a stream whose session is gone: what its log says. Whether the usage was asked for is forgotten, so it is not told. */
async function loggedAnswer(
  { replays, now }: ResumptionParts,
  { principal, streamId, after, signal }: EventsCall,
): Promise<AnswerRef> {
  const logged = await replays.latest(principal, streamId, { named: after?.answer, signal });
  return answerRef({ ...logged, streamId, includeUsage: false }, now());
}
