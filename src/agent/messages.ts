/**
 * The messages of a turn, as the model gets them: made from the events in the log and from nothing else.
 *
 * The same events give the same bytes, so each prompt begins with the one before, also after a restart, and the
 * blob of a message never changes.
 */
import { clone, create, toBinary } from "@bufbuild/protobuf";
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
import { LIMITS } from "../protocol/limits.ts";
import { blobIdOf, putContent } from "./blobs.ts";
import type { TurnIo } from "./turn-io.ts";

/** A message with the bytes that it is known by. */
export interface Written {
  readonly message: ChatMessage;
  readonly bytes: Uint8Array;
  readonly blobId: string;
  readonly kind: BlobKind;
}

export function written(message: ChatMessage): Written {
  const kind = message.role === "assistant" ? BlobKind.ASSISTANT_MESSAGE : BlobKind.MESSAGE;
  const bytes = encodeChatMessage(message);
  return { message, bytes, blobId: blobIdOf(bytes), kind };
}

export function userText(text: string): UserChatMessage {
  return { role: "user", content: [{ type: "text", text }] };
}

const decoder = new TextDecoder();

/** Files come before the text: that is where models expect what the text is about. */
export async function userMessage(
  { text, attachments }: UserMessage,
  io: TurnIo,
  keep: boolean,
): Promise<UserChatMessage> {
  const files = await Promise.all(attachments.map((attachment) => filePart(attachment, io, keep)));
  const texts: TextPart[] = text === "" && files.length > 0 ? [] : [{ type: "text", text }];
  return { role: "user", content: [...files, ...texts] };
}

/** As it can stand in an event: what is attached to a large message is put beside the stream. */
export async function lighter(message: UserMessage, io: TurnIo): Promise<UserMessage> {
  if (toBinary(UserMessageSchema, message).length <= LIMITS.inlineBytesMax) return message;
  const light = clone(UserMessageSchema, message);
  for (const attachment of light.attachments) {
    const { content } = attachment.content ?? {};
    if (content?.case === "inline") attachment.content = await putContent(content.value, io.stream.blobs);
  }
  const told = light.messageJson?.content;
  if (told?.case === "inline") light.messageJson = await putContent(told.value, io.stream.blobs);
  return light;
}

/** What stays of it then. */
export function lightestBytes({ text, messageId, attachments, messageJson }: UserMessage): number {
  const named = attachments.map(({ mediaType, fileName }) => ({ mediaType, fileName }));
  const message = create(UserMessageSchema, { text, messageId, attachments: named });
  const contents = attachments.length + (messageJson === undefined ? 0 : 1);
  return toBinary(UserMessageSchema, message).length + contents * BLOB_NAME_BYTES;
}

/** A blob id, its size, and the tags around them. */
const BLOB_NAME_BYTES = 64;

async function filePart(
  { mediaType, fileName, content }: Attachment,
  io: TurnIo,
  keep: boolean,
): Promise<FilePart | TextPart> {
  const bytes = await io.read(content);
  if (mediaType.startsWith("text/") || mediaType === "application/json") {
    const name = fileName === "" ? "a file" : fileName;
    return { type: "text", text: `The content of ${name}:\n${decoder.decode(bytes)}` };
  }
  const blobId = blobIdOf(bytes);
  if (keep) await io.setBlob(bytes, BlobKind.CONTENT);
  else io.learn(blobId, bytes);
  return { type: "file", mediaType, blobId, ...(fileName === "" ? {} : { fileName }) };
}

const OUTCOME_NAMES: ReadonlyMap<ToolOutcome, ToolResultPart["outcome"]> = new Map([
  [ToolOutcome.DONE, "done"],
  [ToolOutcome.DENIED, "denied"],
  [ToolOutcome.ABORTED, "aborted"],
  [ToolOutcome.UNKNOWN, "unknown"],
]);

/** In the order of the calls, whatever order they ended in. */
export async function toolMessage(
  calls: readonly ToolCallPart[],
  over: ReadonlyMap<string, ToolCall>,
  io: TurnIo,
): Promise<ToolChatMessage> {
  const results = calls.map(async ({ toolCallId, tool }): Promise<ToolResultPart> => {
    const call = over.get(toolCallId);
    const text = decoder.decode(await io.read(call?.result));
    const outcome = OUTCOME_NAMES.get(call?.outcome ?? ToolOutcome.UNSPECIFIED) ?? "failed";
    const files = await Promise.all((call?.files ?? []).map((file) => resultFile(file, io)));
    return { type: "tool-result", toolCallId, tool, outcome, text, ...(files.length === 0 ? {} : { files }) };
  });
  return { role: "tool", content: await Promise.all(results) };
}

async function resultFile({ mediaType, content }: Attachment, io: TurnIo): Promise<FilePart> {
  if (content?.content.case === "blobId") {
    return { type: "file", mediaType, blobId: Buffer.from(content.content.value).toString("hex") };
  }
  const bytes = await io.read(content);
  const blobId = blobIdOf(bytes);
  io.learn(blobId, bytes);
  return { type: "file", mediaType, blobId };
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
