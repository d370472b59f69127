/**
 * A turn of a client that keeps nothing: the whole conversation travels with the question.
 */
import { create, toBinary } from "../../src/protocol/message.ts";
import { type NodeClient, splitStream } from "../../src/client-node/index.ts";
import { type ChatMessage, encodeChatMessage } from "../../src/protocol/chat-message.ts";
import { AgentClientMessageSchema, TurnEndReason } from "../../src/protocol/messages.ts";
import type { AnswerTimes } from "./answer-times.ts";

export interface HistoryTurn {
  readonly text: string;
  /** How many are sent along, each a question and an answer. */
  readonly turns: number;
  /** Of an answer. */
  readonly messageBytes: number;
}

export async function askWithHistory(
  client: NodeClient,
  turn: HistoryTurn,
  times: AnswerTimes,
): Promise<void> {
  const stream = await client.open({ first: requestOf(turn) });
  for await (const { message } of splitStream(stream.events).interaction) {
    if (message.case !== "interactionUpdate") continue;
    const { message: update } = message.value;
    if (update.case === "textDelta") times.came(update.value.text);
    if (update.case === "turnEnded" && update.value.reason !== TurnEndReason.COMPLETED) {
      throw new Error(`a turn with history failed: ${update.value.failure?.message ?? ""}`);
    }
  }
  await stream.ended;
}

function requestOf({ text, turns, messageBytes }: HistoryTurn): Uint8Array {
  const said: ChatMessage = { role: "user", content: [{ type: "text", text }] };
  const history = Array.from({ length: turns }, (_, at): readonly ChatMessage[] => {
    const answer = `${at} `.padEnd(messageBytes, "x");
    return [said, { role: "assistant", content: [{ type: "text", text: answer }] }];
  });
  const contents = history.flat().map((message) => {
    return { content: { case: "inline" as const, value: encodeChatMessage(message) } };
  });
  const userMessage = { text, messageId: "bench" };
  const action = { action: { case: "userMessageAction", value: { userMessage } } } as const;
  const value = { action, history: contents, conversationId: "bench", keepsBlobs: false };
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, { message: { case: "runRequest", value } }),
  );
}
