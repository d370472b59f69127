/**
 * The messages of a turn: made, written and read in one place.
 *
 * A message that is made from an init is the same as one that was read from its bytes, so folds do not know where it comes from.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type InteractionUpdate,
  type InteractionUpdateSchema,
} from "../protocol/messages.ts";
import { decodeChatMessage, textOf } from "../protocol/chat-message.ts";

export type ClientMessage = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;
export type ServerMessage = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;
export type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;

/** What the model says in a step. A kind of part that is added has a case in `noteOutput` and in `PassOver`: neither passes over one that it does not know. */
export type Output = Extract<
  Update,
  {
    case:
      | "textDelta"
      | "thinkingDelta"
      | "thinkingCompleted"
      | "partialToolCall"
      | "toolCallStarted"
      | "stepFallback";
  }
>;

export function clientMessage(message: ClientMessage): AgentClientMessage {
  return create(AgentClientMessageSchema, { message });
}

export function serverMessage(message: ServerMessage): AgentServerMessage {
  return create(AgentServerMessageSchema, { message });
}

export function updateMessage(message: Update): AgentServerMessage {
  return serverMessage({ case: "interactionUpdate", value: { message } });
}

export function encodeClient(message: ClientMessage): Uint8Array {
  return toBinary(AgentClientMessageSchema, clientMessage(message));
}

export function encodeServer(message: AgentServerMessage): Uint8Array {
  return toBinary(AgentServerMessageSchema, message);
}

/** Throws for bytes that are no message. */
export function decodeClient(body: Uint8Array): AgentClientMessage {
  return fromBinary(AgentClientMessageSchema, body);
}

/** Throws for bytes that are no message. */
export function decodeServer(body: Uint8Array): AgentServerMessage {
  return fromBinary(AgentServerMessageSchema, body);
}

/** The words of an assistant message; undefined for bytes that are none: the model's next call will complain of them. */
export function spokenIn(bytes: Uint8Array): string | undefined {
  try {
    const message = decodeChatMessage(bytes);
    return message.role === "assistant" ? textOf(message) : undefined;
  } catch {
    return undefined;
  }
}

/** What the server says of the turn's course; `case` is undefined for every other message. */
export function updateOf({ message }: AgentServerMessage): InteractionUpdate["message"] {
  return message.case === "interactionUpdate" ? message.value.message : { case: undefined };
}
