/** The smallest exec request, and what its result says. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
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
