/**
 * How a turn ended, as the end of an answer: with a finish reason, or with an error.
 *
 * A finish reason is given whenever the client has a whole answer: one without it makes clients ask again and again.
 */
import { create } from "../protocol/message.ts";
import {
  type Failure,
  FailureKind,
  FailureSchema,
  FinishReason,
  type TurnEndedUpdate,
  TurnEndReason,
} from "../protocol/messages.ts";
import type { AnswerDelta, Finish } from "./answer-delta.ts";

export type TurnEnd = Pick<Extract<AnswerDelta, { kind: "ended" }>, "reason" | "finish" | "failure">;

/** Bounds of a turn, not faults: the client has what was said up to there, and may continue with a message. */
const BOUNDS: Readonly<Partial<Record<FailureKind, Finish>>> = {
  [FailureKind.STEP_LIMIT]: "length",
  [FailureKind.TOKEN_LIMIT]: "length",
  // It would say the same for ever: there is no more to come.
  [FailureKind.NO_PROGRESS]: "stop",
};

/** `last`: why the model stopped in the last step that is complete. */
export function endOf({ reason, failure }: TurnEndedUpdate, last: FinishReason): TurnEnd {
  if (reason === TurnEndReason.ABORTED) return { reason: "aborted", finish: undefined, failure: undefined };
  if (reason === TurnEndReason.FAILED) {
    // The model said something before the filter came down: the client has it, and learns why there is no more.
    const isCut = failure?.kind === FailureKind.CONTENT_FILTERED && last === FinishReason.CONTENT_FILTER;
    const bound = failure === undefined ? undefined : BOUNDS[failure.kind];
    return { reason: "failed", finish: isCut ? "content_filter" : bound, failure };
  }
  switch (last) {
    case FinishReason.LENGTH:
      return { reason: "completed", finish: "length", failure: undefined };
    case FinishReason.CONTENT_FILTER:
      return { reason: "completed", finish: "content_filter", failure: undefined };
    case FinishReason.ERROR:
      return { reason: "completed", finish: undefined, failure: brokeOff() };
    default:
      return { reason: "completed", finish: "stop", failure: undefined };
  }
}

function brokeOff(): Failure {
  const message = "the model's provider broke the answer off; try again";
  return create(FailureSchema, { kind: FailureKind.MODEL_UNAVAILABLE, message });
}
