/**
 * Events of a turn, as short as they can be written, for the tests of the projection.
 */
import { create, type MessageInitShape } from "../../src/protocol/message.ts";
import type { AnswerDelta, AnswerEvent } from "../../src/gateway/openai/index.ts";
import { initAnswer, project } from "../../src/gateway/openai/index.ts";
import { type AssistantChatMessage, encodeChatMessage } from "../../src/protocol/chat-message.ts";
import {
  type AgentServerMessage,
  AgentServerMessageSchema,
  BlobKind,
  type FinishReason,
  type InteractionUpdateSchema,
  type TurnEndedUpdateSchema,
} from "../../src/protocol/messages.ts";

type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;

export function update(message: Update): AgentServerMessage {
  return create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: { message } } });
}

export const text = (words: string) => update({ case: "textDelta", value: { text: words } });
export const thinking = (words: string) => update({ case: "thinkingDelta", value: { text: words } });
export const started = (step: number) => update({ case: "stepStarted", value: { step, model: "m" } });

export const restarted = (step: number, rollbackTo: number) =>
  update({ case: "stepRestarted", value: { step, rollbackToEventId: String(rollbackTo), attempt: 1 } });

/** Of ten tokens in and one out, for each step. */
export const usage = { inputTokens: 10, outputTokens: 1 };

export const completed = (step: number, finishReason: FinishReason, message?: AssistantChatMessage) =>
  update({
    case: "stepCompleted",
    value: {
      step,
      finishReason,
      usage,
      ...(message === undefined
        ? {}
        : { message: { content: { case: "inline", value: encodeChatMessage(message) } } }),
    },
  });

export const called = (toolCallId: string, execIds: string[]) =>
  update({ case: "toolCallStarted", value: { toolCall: { toolCallId, tool: "f", execIds } } });

export const callOver = (toolCallId: string) =>
  update({ case: "toolCallCompleted", value: { toolCall: { toolCallId, tool: "f" } } });

export const turnEnded = (value: MessageInitShape<typeof TurnEndedUpdateSchema> = {}) =>
  update({ case: "turnEnded", value });

const encoder = new TextEncoder();

export function exec(id: number, execId: string, toolCallId: string, args = "{}"): AgentServerMessage {
  const argsJson = { content: { case: "inline" as const, value: encoder.encode(args) } };
  const message = { case: "mcpArgs" as const, value: { name: "f", argsJson } };
  return create(AgentServerMessageSchema, {
    message: { case: "execServerMessage", value: { id, execId, toolCallId, message } },
  });
}

/** One that the gateway carries out itself. */
export function readExec(id: number, execId: string, toolCallId: string): AgentServerMessage {
  const message = { case: "readArgs" as const, value: { path: "x" } };
  return create(AgentServerMessageSchema, {
    message: { case: "execServerMessage", value: { id, execId, toolCallId, message } },
  });
}

export function setBlob(
  blobData: Uint8Array | undefined,
  kind: BlobKind = BlobKind.ASSISTANT_MESSAGE,
): AgentServerMessage {
  const data = blobData === undefined ? {} : { blobData };
  const value = { blobId: new Uint8Array(32).fill(7), kind, ...data };
  return create(AgentServerMessageSchema, {
    message: { case: "kvServerMessage", value: { id: 1, message: { case: "setBlobArgs", value } } },
  });
}

export function assistantSaid(words: string): AssistantChatMessage {
  return { role: "assistant", content: [{ type: "text", text: words }] };
}

export function eventsOf(messages: readonly AgentServerMessage[]): readonly AnswerEvent[] {
  return messages.map((message, at) => ({ eventId: at + 1, message }));
}

/** What a reader gets that is there from the beginning. */
export function live(events: readonly AnswerEvent[]): readonly AnswerDelta[] {
  let state = initAnswer();
  return events.flatMap(({ eventId, message, blob }) => {
    const [next, deltas] = project(state, eventId, message, blob);
    state = next;
    return deltas;
  });
}

/** All the words of a kind, as a reader puts them together. */
export function wordsOf(deltas: readonly AnswerDelta[], kind: "text" | "reasoning" = "text"): string {
  return deltas.map((delta) => (delta.kind === kind ? delta.text : "")).join("");
}

export function kindsOf(deltas: readonly AnswerDelta[]): readonly string[] {
  return deltas.map(({ kind }) => kind);
}
