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
import { FieldWriter, fieldSize } from "../protocol/hot-frames.ts";

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
export function pieceMessage(kind: PieceKind, text: string): AgentServerMessage {
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

type PieceKind = "textDelta" | "thinkingDelta";

/** Of the oneof's field in an update. The update itself, and the text, are field 1. */
const PIECE_NUMBERS: Readonly<Record<PieceKind, number>> = { textDelta: 1, thinkingDelta: 4 };
const PIECE_KINDS: ReadonlyMap<number | undefined, PieceKind> = new Map([
  [0x0a, "textDelta"],
  [0x22, "thinkingDelta"],
]);
const FIRST_FIELD = 0x0a;

const encoder = new TextEncoder();
/** As the generated code reads a text: what is no UTF-8 is refused, and U+FEFF is a character. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The same bytes as `encodeServer` makes of `pieceMessage`: three fields, one inside the other. The text is not empty. */
export function encodePiece(kind: PieceKind, text: string): Uint8Array {
  const bytes = encoder.encode(text);
  const pieceSize = fieldSize(bytes.length);
  const updateSize = fieldSize(pieceSize);
  const out = new FieldWriter(fieldSize(updateSize));
  out.begin(1, updateSize);
  out.begin(PIECE_NUMBERS[kind], pieceSize);
  out.body(1, bytes);
  return out.bytes;
}

/** Undefined unless the bytes are exactly one piece. */
function decodePiece(body: Uint8Array): AgentServerMessage | undefined {
  const update = contentAt(body, 0, FIRST_FIELD);
  const kind = PIECE_KINDS.get(body[update]);
  if (kind === undefined) return undefined;
  const text = contentAt(body, contentAt(body, update, body[update]), FIRST_FIELD);
  return text < body.length ? pieceMessage(kind, decoder.decode(body.subarray(text))) : undefined;
}

/** Lengths of pieces have at most so many bytes. */
const LENGTH_BYTES_MAX = 3;

/** Where the content of a field begins that fills the rest; behind the end when there is no such field. */
function contentAt(body: Uint8Array, at: number, tag: number | undefined): number {
  let length = 0;
  for (let digit = 0; body[at] === tag && digit < LENGTH_BYTES_MAX; digit++) {
    const byte = body[at + 1 + digit] ?? 0;
    length |= (byte & 0x7f) << (7 * digit);
    const begin = at + 2 + digit;
    if (byte < 0x80) return begin + length === body.length ? begin : body.length;
  }
  return body.length;
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
