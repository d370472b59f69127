/**
 * The step whose model output is under way: what of it is in the log. Pure.
 *
 * These are the facts by which a turn decides what to do when the output breaks off. They follow from the log alone, so a run that reads it
 * back decides by the same ones.
 */
import type { InteractionUpdate, ToolCall } from "../protocol/messages.ts";

export interface OpenStep {
  readonly step: number;
  /** Its tool calls with their exec ids. */
  readonly started: readonly ToolCall[];
  /** Requests to providers that the attempts before this one may have sent (G2). */
  readonly requestsBefore: number;
  /** Of this attempt: whether the model has said anything, and what of it an OpenAI stream has shown. */
  readonly hasContent: boolean;
  readonly hasThinking: boolean;
  readonly hasText: boolean;
}

/** The open step after an update; undefined when none is open. */
export function openStepAfter(
  open: OpenStep | undefined,
  { message }: InteractionUpdate,
): OpenStep | undefined {
  switch (message.case) {
    case "stepStarted":
    case "stepRestarted": {
      const { step, requestsBefore } = message.value;
      const said = { hasContent: false, hasThinking: false, hasText: false };
      return { step, started: [], requestsBefore, ...said };
    }
    case "stepCompleted":
      return undefined;
    case "textDelta":
      return open && { ...open, hasContent: true, hasText: true };
    case "thinkingDelta":
      return open && { ...open, hasContent: true, hasThinking: true };
    // A thought without words: sealed, and part of the answer.
    case "thinkingCompleted":
    case "partialToolCall":
      return open && { ...open, hasContent: true };
    case "toolCallStarted": {
      const { toolCall } = message.value;
      if (open === undefined || toolCall === undefined) return open;
      return { ...open, hasContent: true, started: [...open.started, toolCall] };
    }
    default:
      return open;
  }
}
