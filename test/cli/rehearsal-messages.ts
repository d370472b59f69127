/** What a client without blobs says to the rehearsal model, and how its events read. */
import { create, fromBinary, toBinary } from "../../src/protocol/message.ts";
import type { Tools } from "../../src/client/index.ts";
import { AgentClientMessageSchema, AgentServerMessageSchema } from "../../src/protocol/messages.ts";

export function userMessage(text: string, tools: readonly string[] = []): Uint8Array {
  const action = { case: "userMessageAction", value: { userMessage: { text } } } as const;
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, {
      message: {
        case: "runRequest",
        value: { action: { action }, tools: tools.map((name) => ({ name })) },
      },
    }),
  );
}

export const cancel = toBinary(
  AgentClientMessageSchema,
  create(AgentClientMessageSchema, {
    message: { case: "conversationAction", value: { action: { case: "cancelAction", value: {} } } },
  }),
);

/** One word per event: the text of a delta, else its kind. */
export function wordOf(body: Uint8Array): string {
  const { message } = fromBinary(AgentServerMessageSchema, body);
  if (message.case !== "interactionUpdate") return String(message.case);
  const update = message.value.message;
  if (update.case === "textDelta") return update.value.text;
  if (update.case === "turnEnded") return `turnEnded ${update.value.reason}`;
  return String(update.case);
}

/** Answers every exec with `answer`, and counts. */
export function echoTools(answer: string, ran: () => void): Tools {
  return {
    policy: () => ({ repeatable: false, needsApproval: false }),
    approve: () => Promise.resolve({ allowed: true, untilMs: Infinity }),
    stopLeftover: () => undefined,
    run: (exec) => {
      ran();
      const content = [{ content: { content: { case: "inline", value: Buffer.from(answer) } as const } }];
      const result = { case: "success", value: { content } } as const;
      const { id, execId, toolCallId } = exec;
      const message = { case: "mcpResult", value: { result } } as const;
      return Promise.resolve(
        toBinary(
          AgentClientMessageSchema,
          create(AgentClientMessageSchema, {
            message: { case: "execClientMessage", value: { id, execId, toolCallId, message } },
          }),
        ),
      );
    },
  };
}
