/**
 * Turns as messages of the AI SDK's `useChat`: what a page begins with.
 */
import type { UIMessage } from "ai";
import type { ShownTurn } from "../live/index.ts";
import type { ToolView, ViewPart } from "../turn/view.ts";
import { callIdOf, errorOf, inputOf, outputOf, resultOf } from "./ui-chunks.ts";

type Part = UIMessage["parts"][number];

/** The user's message, if there is one, and the answer, if there is something of it. */
export function messagesOf(turn: ShownTurn): readonly UIMessage[] {
  return [...userMessagesOf(turn), ...(turn.parts.length === 0 ? [] : [answerOf(turn)])];
}

export function userMessagesOf({ id, user }: ShownTurn): readonly UIMessage[] {
  return user === undefined
    ? []
    : [{ id: `${id}.user`, role: "user", parts: [{ type: "text", text: user.text }] }];
}

export function answerIdOf(turnId: string): string {
  return `${turnId}.answer`;
}

/** Of a turn that is over. */
export function answerOf({ id, parts: views }: Pick<ShownTurn, "id" | "parts">): UIMessage {
  const parts: Part[] = [];
  let step = -1;
  for (const view of views) {
    if (view.type !== "user" && view.step > step) {
      parts.push({ type: "step-start" });
      ({ step } = view);
    }
    parts.push(partOf(view));
  }
  return { id: answerIdOf(id), role: "assistant", parts };
}

function partOf(view: ViewPart): Part {
  switch (view.type) {
    case "text":
      return { type: "text", text: view.text, state: "done" };
    case "thinking":
      return { type: "reasoning", text: view.text, state: "done" };
    case "user":
      return { type: "steering-message", id: view.messageId, parts: [{ type: "text", text: view.text }] };
    case "tool":
      return toolPartOf(view);
  }
}

function toolPartOf(view: ToolView): Part {
  const toolCallId = callIdOf(view);
  const call = { type: "dynamic-tool", toolName: view.tool, toolCallId, providerExecuted: true } as const;
  if (view.state === "writing") return { ...call, state: "input-streaming", input: undefined };
  const input = inputOf(view);
  if (view.state === "running") {
    const output = outputOf(view);
    return output === ""
      ? { ...call, state: "input-available", input }
      : { ...call, state: "output-available", input, output, preliminary: true };
  }
  switch (view.outcome) {
    case "done":
      return { ...call, state: "output-available", input, output: resultOf(view) };
    case "denied":
      return {
        ...call,
        state: "output-denied",
        input,
        approval: { id: toolCallId, approved: false, reason: resultOf(view) },
      };
    default:
      return { ...call, state: "output-error", input, errorText: errorOf(view) };
  }
}
