/**
 * Replays of the gateway: the events of an answer without those that were rolled back. What people see is rolled back by `view-fold.ts`.
 *
 * A live reader has seen the beginning of a step that was cut off; the projection then passes over what it says again. A reader
 * that comes later has no use for it. A reader that returns has seen some of it, up to its last event, and gets neither what it has
 * nor what does not count.
 *
 * Thoughts are not taken back where no text was said behind them: a reader that was there has them as items of their own, and the items behind them
 * are counted. So every reader gets them, whenever it comes, and finds each item at the same place.
 */
import type { AgentServerMessage } from "../protocol/messages.ts";
import type { AnswerDelta } from "./answer-delta.ts";
import { type AnswerState, initAnswer, project } from "./answer.ts";
import { updateOf } from "./messages.ts";

export interface AnswerEvent {
  readonly eventId: number;
  readonly message: AgentServerMessage;
  /** The bytes of `neededBlob`, when it names one. */
  readonly blob?: Uint8Array;
}

/** `seenThrough`: the last event of which the reader has something; 0 = none. */
export function withoutRolledBack<Event extends AnswerEvent>(
  events: readonly Event[],
  seenThrough = 0,
): readonly Event[] {
  const left: Event[] = [];
  for (const event of events) {
    const rollbackTo = rollbackOf(event.message);
    if (rollbackTo !== undefined) {
      const from = left.findLastIndex(({ eventId }) => eventId <= rollbackTo) + 1;
      const givenUp = left.splice(from);
      const hasText = givenUp.some(({ message }) => updateOf(message).case === "textDelta");
      // What a reader saw of an attempt that was given up after it left is still on its screen.
      const isSeen = ({ eventId }: Event): boolean => seenThrough < event.eventId && eventId <= seenThrough;
      left.push(...givenUp.filter((one) => isSeen(one) || (!hasText && isThought(one))));
    }
    left.push(event);
  }
  return left;
}

/** Or says whose thought it is. */
function isThought({ message }: AnswerEvent): boolean {
  const { case: what } = updateOf(message);
  return what === "thinkingDelta" || what === "thinkingCompleted" || what === "stepFallback";
}

function rollbackOf(message: AgentServerMessage): number | undefined {
  const update = updateOf(message);
  const isAgain = update.case === "stepRestarted" || update.case === "stepContinued";
  return isAgain ? Number(update.value.rollbackToEventId) : undefined;
}

export interface ProjectedRange {
  readonly state: AnswerState;
  readonly deltas: readonly AnswerDelta[];
  /** How many events it is made of. */
  readonly count: number;
}

/**
 * All that a reader of these events gets now, and the state after that. The events begin at a request or after a pause. `givenAfter`: the event
 * behind which the reader is given the deltas; by default that is what it has seen. `begun`: the same of the first of these events.
 */
export function projectRange(
  events: readonly AnswerEvent[],
  {
    seenThrough = 0,
    givenAfter = seenThrough,
    begun,
  }: {
    readonly seenThrough?: number;
    readonly givenAfter?: number;
    readonly begun?: ProjectedRange | undefined;
  } = {},
): ProjectedRange {
  const more = events.slice(begun?.count ?? 0);
  // What is rolled back may be among the events that are projected already.
  if (begun !== undefined && more.some(({ message }) => rollbackOf(message) !== undefined))
    return projectRange(events, { seenThrough, givenAfter });
  let { state } = begun ?? { state: initAnswer() };
  const deltas: AnswerDelta[] = [...(begun?.deltas ?? [])];
  for (const { eventId, message, blob } of withoutRolledBack(more, seenThrough)) {
    const [next, made] = project(state, eventId, message, blob);
    state = next;
    if (eventId > givenAfter) deltas.push(...made);
  }
  return { state, deltas, count: events.length };
}
