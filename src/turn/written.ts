/**
 * The messages of a turn, as the model gets them: made from the events in the log and from nothing else.
 *
 * The same events give the same bytes, so each prompt begins with the one before, also after a restart, and the
 * blob of a message never changes.
 */
import { create, toBinary } from "../protocol/message.ts";
import {
  type ChatMessage,
  encodeChatMessage,
  type FilePart,
  type TextPart,
  type ToolCallPart,
  type ToolChatMessage,
  type ToolResultPart,
  type UserChatMessage,
} from "../protocol/chat-message.ts";
import {
  type Attachment,
  BlobKind,
  type ToolCall,
  ToolOutcome,
  type UserMessage,
  UserMessageSchema,
} from "../protocol/messages.ts";
import { type IdOf, learn } from "./found.ts";
import type { Reader } from "./reader.ts";
import { blobIn, bytesIn } from "./content.ts";
import { outcomeName } from "./tool-outcome.ts";

/** A message with the bytes that it is known by. */
export interface Written {
  readonly message: ChatMessage;
  readonly bytes: Uint8Array;
  readonly blobId: string;
  readonly kind: BlobKind;
}

export function written(message: ChatMessage, idOf: IdOf): Written {
  const kind = message.role === "assistant" ? BlobKind.ASSISTANT_MESSAGE : BlobKind.MESSAGE;
  const bytes = encodeChatMessage(message);
  return { message, bytes, blobId: idOf(bytes), kind };
}

export function userText(text: string): UserChatMessage {
  return { role: "user", content: [{ type: "text", text }] };
}

const decoder = new TextDecoder();

/** Files come before the text: that is where models expect what the text is about. */
export function userMessage({ text, attachments }: UserMessage, reader: Reader): UserChatMessage {
  const files = attachments.map((attachment) => filePart(attachment, reader));
  const texts: TextPart[] = text === "" && files.length > 0 ? [] : [{ type: "text", text }];
  return { role: "user", content: [...files, ...texts] };
}

/** What stays of a message in an event when everything large in it lies beside the stream. */
export function lightestBytes({ text, messageId, attachments, messageJson }: UserMessage): number {
  const named = attachments.map(({ mediaType, fileName }) => ({ mediaType, fileName }));
  const message = create(UserMessageSchema, { text, messageId, attachments: named });
  const contents = attachments.length + (messageJson === undefined ? 0 : 1);
  return toBinary(UserMessageSchema, message).length + contents * BLOB_NAME_BYTES;
}

/** A blob id, its size, and the tags around them. */
const BLOB_NAME_BYTES = 64;

function filePart(attachment: Attachment, reader: Reader): FilePart | TextPart {
  const { mediaType, fileName, content } = attachment;
  if (mediaType.startsWith("text/") || mediaType === "application/json") {
    const name = fileName === "" ? "a file" : fileName;
    return { type: "text", text: `The content of ${name}:\n${decoder.decode(reader.read(content))}` };
  }
  return { ...namedFile(attachment, reader), ...(fileName === "" ? {} : { fileName }) };
}

/** A file by its blob id. Bytes that stand in the log stay in hand under it. */
function namedFile({ mediaType, content }: Attachment, { found }: Reader): FilePart {
  const named = blobIn(content);
  if (named !== undefined) return { type: "file", mediaType, blobId: named };
  const bytes = bytesIn(content) ?? new Uint8Array();
  const blobId = found.idOf(bytes);
  learn(found, blobId, bytes);
  return { type: "file", mediaType, blobId };
}

/** In the order of the calls, whatever order they ended in. */
export function toolMessage(
  calls: readonly ToolCallPart[],
  over: ReadonlyMap<string, ToolCall>,
  reader: Reader,
): ToolChatMessage {
  const content = calls.map(({ toolCallId, tool }): ToolResultPart => {
    const call = over.get(toolCallId);
    const text = decoder.decode(reader.read(call?.result));
    const outcome = outcomeName(call?.outcome ?? ToolOutcome.UNSPECIFIED) ?? "failed";
    const files = (call?.files ?? []).map((file) => namedFile(file, reader));
    return { type: "tool-result", toolCallId, tool, outcome, text, ...(files.length === 0 ? {} : { files }) };
  });
  return { role: "tool", content };
}

/**
 * Providers refuse a history in which a tool call has no result. One that was cut off there gets results
 * that say so; a history that is whole stays as it is.
 */
export function withAllResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.flatMap((message, at): readonly ChatMessage[] => {
    if (message.role !== "assistant") return [message];
    const calls = message.content.filter((part) => part.type === "tool-call");
    const next = messages[at + 1];
    const answered = new Set(next?.role === "tool" ? next.content.map(({ toolCallId }) => toolCallId) : []);
    const open = calls.filter(({ toolCallId }) => !answered.has(toolCallId));
    if (open.length === 0) return [message];
    const missing = open.map(({ toolCallId, tool }): ToolResultPart => {
      const text = "The turn was cut off before this was answered; whether it took effect is not known.";
      return { type: "tool-result", toolCallId, tool, outcome: "unknown", text };
    });
    return [message, { role: "tool", content: missing }];
  });
}
