/**
 * What a server says in a turn, message by message, for tests of the folds.
 */
import { create, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import { bytesOfHex } from "../../src/protocol/bytes.ts";
import { blobIdOf } from "../../src/client/index.ts";
import {
  type AgentServerMessage,
  AgentServerMessageSchema,
  BlobKind,
  encodeChatMessage,
  type InteractionUpdateSchema,
  TodoItemSchema,
  TodoStatus,
  ToolOutcome,
  TurnEndReason,
} from "../../src/protocol/index.ts";

export type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
type Message = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;

const message = (value: Message): AgentServerMessage => create(AgentServerMessageSchema, { message: value });
export const update = (value: Update): AgentServerMessage =>
  message({ case: "interactionUpdate", value: { message: value } });

const utf8 = (words: string): Uint8Array => new TextEncoder().encode(words);
export const inline = (words: string) => ({ content: { case: "inline" as const, value: utf8(words) } });

export const text = (words: string) => update({ case: "textDelta", value: { text: words } });
export const thinking = (words: string) => update({ case: "thinkingDelta", value: { text: words } });
export const thinkingCompleted = (durationMs: number) =>
  update({ case: "thinkingCompleted", value: { durationMs } });
export const started = (step: number) => update({ case: "stepStarted", value: { step, model: "m" } });
export const completed = (step: number) =>
  update({ case: "stepCompleted", value: { step, usage: { inputTokens: 10, outputTokens: 2 } } });
/** Back to the beginning of the step, whichever event that was. */
export const restarted = (step: number, attempt: number) =>
  update({ case: "stepRestarted", value: { step, attempt, rollbackToEventId: "0" } });
export const user = (words: string, messageId: string) =>
  update({ case: "userMessageAppended", value: { userMessage: { text: words, messageId } } });
export const summary = (words: string) => update({ case: "summary", value: { text: words } });
export const ended = () => update({ case: "turnEnded", value: { reason: TurnEndReason.COMPLETED } });

const call = (toolCallId: string, execId: string) => ({ toolCallId, tool: "shell", execIds: [execId] });
export const callWritten = (toolCallId: string, tool: string, argsJsonDelta: string) =>
  update({ case: "partialToolCall", value: { toolCallId, tool, argsJsonDelta } });
export const callStarted = (toolCallId: string, execId: string) =>
  update({ case: "toolCallStarted", value: { toolCall: call(toolCallId, execId) } });
export const callOver = (toolCallId: string, execId: string, outcome = ToolOutcome.DONE) =>
  update({ case: "toolCallCompleted", value: { toolCall: { ...call(toolCallId, execId), outcome } } });

export const output = (execId: string, stream: "stdout" | "stderr", words: string) =>
  update({ case: "shellOutputDelta", value: { execId, output: { case: stream, value: utf8(words) } } });
export const progress = (toolCallId: string, words: string) =>
  update({ case: "toolCallDelta", value: { toolCallId, text: words } });

export function set(bytes: Uint8Array, kind: BlobKind): AgentServerMessage {
  const value = { blobId: bytesOfHex(blobIdOf(bytes)), blobData: bytes, kind };
  return message({
    case: "kvServerMessage",
    value: { id: 1, message: { case: "setBlobArgs", value } },
  });
}

/** The model's message, as the server has it kept. */
export const answerKept = (words: string) =>
  set(
    encodeChatMessage({ role: "assistant", content: [{ type: "text", text: words }] }),
    BlobKind.ASSISTANT_MESSAGE,
  );

export function todo(words: string) {
  const item = { id: words, text: words, status: TodoStatus.PENDING };
  const bytes = toBinary(TodoItemSchema, create(TodoItemSchema, item));
  return { item, bytes, blobId: blobIdOf(bytes) };
}

export const checkpoint = (todos: readonly string[]) =>
  message({ case: "conversationCheckpointUpdate", value: { todos: todos.map((id) => bytesOfHex(id)) } });
