/**
 * The step whose model output is under way: what of it is in the log. Changed in place.
 *
 * By these facts a turn decides what to do when the output breaks off. They follow from the log alone, so a run that reads it
 * back decides by the same ones.
 */
import type { InteractionUpdate, ToolCall } from "../protocol/messages.ts";

export interface OpenStep {
  readonly step: number;
  /** The event after which everything is rolled back when the step begins anew. */
  readonly sinceEvent: number;
  readonly restarts: number;
  /** Requests to providers that the attempts before this one may have sent (G2). */
  readonly requestsBefore: number;
  /** Requests that the step had sent when this attempt last said so; 0 = it has said nothing. */
  requestsTold: number;
  /** The model that step_started names, and the one that answers this attempt. */
  readonly model: string;
  servedBy: string;
  /** The model that said what was shown of the step, over all attempts; empty = nothing was. */
  shownBy: string;
  /** Its tool calls with their exec ids. */
  readonly started: ToolCall[];
  /** Of this attempt: whether the model has said anything, and what of it an OpenAI stream has shown. */
  hasContent: boolean;
  hasThinking: boolean;
  hasText: boolean;
}

interface Begun {
  readonly step: number;
  readonly requestsBefore: number;
}

export function newOpenStep(
  { step, requestsBefore, model }: Begun & { readonly model: string },
  sinceEvent: number,
): OpenStep {
  const said = { requestsTold: 0, hasContent: false, hasThinking: false, hasText: false };
  const served = { model, servedBy: model, shownBy: "" };
  return { step, sinceEvent, restarts: 0, requestsBefore, ...served, started: [], ...said };
}

/** The same step, anew. */
export function restartedStep(
  { model, shownBy, restarts }: OpenStep,
  begun: Begun,
  sinceEvent: number,
): OpenStep {
  return { ...newOpenStep({ ...begun, model }, sinceEvent), shownBy, restarts: restarts + 1 };
}

/** Notes what an update shows of the model's output. */
export function noteOutput(open: OpenStep, { message }: InteractionUpdate): void {
  switch (message.case) {
    case "textDelta":
      open.hasText = true;
      open.shownBy = open.servedBy;
      break;
    case "thinkingDelta":
      open.hasThinking = true;
      open.shownBy = open.servedBy;
      break;
    case "stepFallback":
      open.servedBy = message.value.model;
      return;
    // A thought without words: sealed, and part of the answer.
    case "thinkingCompleted":
    case "partialToolCall":
      break;
    case "stepRequested":
      open.requestsTold = message.value.requests;
      return;
    case "toolCallStarted":
      if (message.value.toolCall === undefined) return;
      open.started.push(message.value.toolCall);
      break;
    default:
      return;
  }
  open.hasContent = true;
}
