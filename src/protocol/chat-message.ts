/**
 * The messages that feed a model: what the blobs of `ConversationState.messages` and a `RunRequest.history` hold.
 *
 * UTF-8 JSON, one message each. A message is written once and from then on known by the SHA-256 of its bytes, so
 * every prompt is made of the same bytes as the one before, and providers' prompt caches stay warm. What a provider wants back
 * (reasoning signatures) is carried along unread, in `providerMetadata`.
 *
 * Files are named by blob id, never inlined: a message stays small, and an image is stored once.
 */
import { given } from "./given.ts";
import { invalidFrame } from "./frame-check.ts";
import { checkJson } from "./json-check.ts";

export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

export type ChatMessage = SystemChatMessage | UserChatMessage | AssistantChatMessage | ToolChatMessage;

/** Instructions that came in the middle of the conversation. Those that it began with are the system prompt. */
export interface SystemChatMessage {
  readonly role: "system";
  /** Of its speaker; for providers that have a word for it. */
  readonly name?: string;
  readonly content: readonly TextPart[];
}

export interface UserChatMessage {
  readonly role: "user";
  readonly name?: string;
  readonly content: readonly (TextPart | FilePart)[];
}

export interface AssistantChatMessage {
  readonly role: "assistant";
  readonly name?: string;
  readonly content: readonly (TextPart | ReasoningPart | ToolCallPart)[];
}

/** The results of one step's tool calls, in the order of the calls. */
export interface ToolChatMessage {
  readonly role: "tool";
  readonly content: readonly ToolResultPart[];
}

export interface TextPart {
  readonly type: "text";
  readonly text: string;
  /** The client's mark for a provider's prompt cache, as the client wrote it. */
  readonly cacheControl?: JsonObject;
  readonly providerMetadata?: JsonObject;
}

export interface FilePart {
  readonly type: "file";
  /** For example image/png. */
  readonly mediaType: string;
  readonly fileName?: string;
  /** Exactly one of these: 64 hexadecimal digits, or an address that the provider fetches. */
  readonly blobId?: string;
  readonly url?: string;
  /** How closely the model is to look at an image: low, high, auto. */
  readonly detail?: string;
  readonly cacheControl?: JsonObject;
}

interface ReasoningPart {
  readonly type: "reasoning";
  readonly text: string;
  readonly providerMetadata?: JsonObject;
}

export interface ToolCallPart {
  readonly type: "tool-call";
  /** The provider's. */
  readonly toolCallId: string;
  readonly tool: string;
  /** JSON text as the model wrote it. */
  readonly args: string;
  readonly providerMetadata?: JsonObject;
}

export interface ToolResultPart {
  readonly type: "tool-result";
  readonly toolCallId: string;
  readonly tool: string;
  readonly outcome: "done" | "failed" | "denied" | "aborted" | "unknown";
  /** What the model gets. */
  readonly text: string;
  readonly files?: readonly FilePart[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export function encodeChatMessage(message: ChatMessage): Uint8Array {
  return encoder.encode(JSON.stringify(message));
}

/** Throws `invalid_frame`, naming what is wrong: a message that cannot be read is never skipped. */
export function decodeChatMessage(bytes: Uint8Array): ChatMessage {
  checkJson(bytes);
  let json: unknown;
  try {
    json = JSON.parse(decoder.decode(bytes));
  } catch (cause) {
    throw invalidFrame("a message of the conversation is not JSON", cause);
  }
  const message = objectOf(json, "a message");
  const { role, content } = message;
  const parts = Array.isArray(content) ? content.map((part: unknown) => objectOf(part, "a part")) : undefined;
  if (parts === undefined) throw wrong("content is not a list of parts");
  const named = optionalText(message, "name");
  switch (role) {
    case "system":
      return { role, ...named, content: parts.map(systemPart) };
    case "user":
      return { role, ...named, content: parts.map(userPart) };
    case "assistant":
      return { role, ...named, content: parts.map(assistantPart) };
    case "tool":
      return { role, content: parts.map(toolResult) };
    default:
      throw wrong(`there is no role ${JSON.stringify(role)}`);
  }
}

/** What the model said in words: all its text, without reasoning and tool calls. */
export function textOf(message: ChatMessage): string {
  if (message.role === "tool") return message.content.map(({ text }) => text).join("\n");
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

type Fields = Readonly<Record<string, unknown>>;

function systemPart(part: Fields): TextPart {
  if (part["type"] !== "text") throw wrong("a system message has text parts only");
  return textPart(part);
}

function userPart(part: Fields): TextPart | FilePart {
  switch (part["type"]) {
    case "text":
      return textPart(part);
    case "file":
      return filePart(part);
    default:
      throw wrong(`a user's message has no part ${JSON.stringify(part["type"])}`);
  }
}

function assistantPart(part: Fields): TextPart | ReasoningPart | ToolCallPart {
  switch (part["type"]) {
    case "text":
      return textPart(part);
    case "reasoning":
      return { type: "reasoning", text: text(part, "text"), ...metadata(part) };
    case "tool-call": {
      const toolCallId = text(part, "toolCallId");
      return {
        type: "tool-call",
        toolCallId,
        tool: text(part, "tool"),
        args: text(part, "args"),
        ...metadata(part),
      };
    }
    default:
      throw wrong(`the model's message has no part ${JSON.stringify(part["type"])}`);
  }
}

const OUTCOMES = ["done", "failed", "denied", "aborted", "unknown"] as const;

function toolResult(part: Fields): ToolResultPart {
  if (part["type"] !== "tool-result") throw wrong("a tool's message has tool-result parts only");
  const outcome = OUTCOMES.find((known) => known === part["outcome"]);
  if (outcome === undefined) throw wrong(`there is no outcome ${JSON.stringify(part["outcome"])}`);
  const files = part["files"];
  if (files !== undefined && !Array.isArray(files)) throw wrong("files is not a list");
  return {
    type: "tool-result",
    toolCallId: text(part, "toolCallId"),
    tool: text(part, "tool"),
    outcome,
    text: text(part, "text"),
    ...given({ files: files?.map((file: unknown) => filePart(objectOf(file, "a file"))) }),
  };
}

function textPart(part: Fields): TextPart {
  return {
    type: "text",
    text: text(part, "text"),
    ...optionalObject(part, "cacheControl"),
    ...metadata(part),
  };
}

const BLOB_ID = /^[0-9a-f]{64}$/;

function filePart(part: Fields): FilePart {
  const blobId = part["blobId"] === undefined ? undefined : text(part, "blobId");
  const url = part["url"] === undefined ? undefined : text(part, "url");
  if ((blobId === undefined) === (url === undefined)) throw wrong("a file has either a blobId or a url");
  if (blobId !== undefined && !BLOB_ID.test(blobId)) throw wrong("a blobId has 64 hexadecimal digits");
  return {
    type: "file",
    mediaType: text(part, "mediaType"),
    ...optionalText(part, "fileName"),
    ...given({ blobId, url }),
    ...optionalText(part, "detail"),
    ...optionalObject(part, "cacheControl"),
  };
}

function metadata(part: Fields): { readonly providerMetadata?: JsonObject } {
  return optionalObject(part, "providerMetadata");
}

function optionalText<Name extends string>(fields: Fields, name: Name): { readonly [Key in Name]?: string } {
  const present: { [Key in Name]?: string } = {};
  if (fields[name] !== undefined) present[name] = text(fields, name);
  return present;
}

function optionalObject<Name extends string>(
  fields: Fields,
  name: Name,
): { readonly [Key in Name]?: JsonObject } {
  const present: { [Key in Name]?: JsonObject } = {};
  const value = fields[name];
  if (value === undefined) return present;
  if (!isJsonObject(value)) throw wrong(`${name} is not an object`);
  present[name] = value;
  return present;
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") throw wrong(`${name} is not a text`);
  return value;
}

function objectOf(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw wrong(`${what} is not an object`);
  return { ...value };
}

/** Of what a JSON parser made: then every object is one of JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function wrong(what: string): Error {
  return invalidFrame(`a message of the conversation cannot be read: ${what}`);
}
