/** The smallest exec request, and what its result says. */
import { create, fromBinary, toBinary } from "../../src/protocol/message.ts";
import { AgentClientMessageSchema, AgentServerMessageSchema } from "../../src/protocol/messages.ts";

export const execRequest = toBinary(
  AgentServerMessageSchema,
  create(AgentServerMessageSchema, {
    message: {
      case: "execServerMessage",
      value: { execId: "exec-1", message: { case: "shellArgs", value: { command: "true" } } },
    },
  }),
);

export function outcomeOf(body: Uint8Array): string {
  const { message } = fromBinary(AgentClientMessageSchema, body);
  if (message.case !== "execClientMessage" || message.value.message.case === undefined) return "nothing";
  return message.value.message.value.result.case ?? "nothing";
}

/** An exec request of a kind that does not exist yet: field 60, with a body that nobody knows. */
export const unknownRequest = wrap([0x7a, 6, ...ascii("exec-2"), 0xe2, 3, 1, 0]);

export function answerKindOf(body: Uint8Array): string {
  const { message } = fromBinary(AgentClientMessageSchema, body);
  return message.case === "execClientControlMessage" ? (message.value.message.case ?? "nothing") : "nothing";
}

/** As `exec_server_message`, field 2 of an AgentServerMessage. */
function wrap(request: readonly number[]): Uint8Array {
  return Uint8Array.from([0x12, request.length, ...request]);
}

function ascii(text: string): readonly number[] {
  return [...new TextEncoder().encode(text)];
}
