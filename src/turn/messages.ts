/**
 * The messages of a turn: made, written and read in one place.
 *
 * A message that is made from an init is the same as one that was read from its bytes, so folds do not know where it comes from.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "../protocol/message.ts";
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
  return decodePiece(body) ?? fromBinary(AgentServerMessageSchema, body);
}

/** A piece of text or thinking as a message. Nearly all events are one: it is put together by hand, which takes a fifth of the time. */
export function pieceMessage(kind: "textDelta" | "thinkingDelta", text: string): AgentServerMessage {
  const message: InteractionUpdate["message"] =
    kind === "textDelta"
      ? { case: kind, value: { $typeName: "holdfast.v1.TextDeltaUpdate", text } }
      : { case: kind, value: { $typeName: "holdfast.v1.ThinkingDeltaUpdate", text } };
  const value: InteractionUpdate = { $typeName: "holdfast.v1.InteractionUpdate", message };
  return {
    $typeName: "holdfast.v1.AgentServerMessage",
    message: { case: "interactionUpdate", value },
  };
}

/** Tags of fields that have a length: interaction_update and text are both field 1. */
const FIRST_FIELD = 0x0a;
const PIECE_FIELDS: ReadonlyMap<number, "textDelta" | "thinkingDelta"> = new Map([
  [0x0a, "textDelta"],
  [0x22, "thinkingDelta"],
]);

/** As the generated code reads a text: what is no UTF-8 is refused, and U+FEFF is a character. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined unless the bytes are exactly one piece, three fields one inside the other. */
function decodePiece(body: Uint8Array): AgentServerMessage | undefined {
  const kind = shortField(body, 0, FIRST_FIELD) ? PIECE_FIELDS.get(body[2] ?? 0) : undefined;
  if (kind === undefined || !shortField(body, 2, body[2]) || !shortField(body, 4, FIRST_FIELD)) return;
  return pieceMessage(kind, decoder.decode(body.subarray(6)));
}

/** A field begins there whose length is one byte, and which fills the rest. */
function shortField(body: Uint8Array, at: number, tag: number | undefined): boolean {
  const length = body[at + 1] ?? 0x80;
  return body[at] === tag && length < 0x80 && at + 2 + length === body.length;
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
