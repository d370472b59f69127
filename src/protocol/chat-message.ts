/**
 * The messages that feed a model: what the blobs of `ConversationState.messages` and a `RunRequest.history` hold.
 *
 * UTF-8 JSON, one message each. A message is written once and from then on known by the SHA-256 of its bytes, so
 * every prompt is made of the same bytes as the one before, and providers' prompt caches stay warm. What a provider wants back
 * (reasoning signatures) is carried along unread, in `providerMetadata`.
 *
 * Files are named by blob id, never inlined: a message stays small, and an image is stored once.
 */
import * as z from "zod/mini";
import { BLOB_ID } from "./blob-id.ts";
import { nameOf } from "./checked.ts";
import { invalidFrame } from "./frame-check.ts";
import { checkJson } from "./json-check.ts";

export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

const TEXT = z.string({ error: "is not a text" });
const OBJECT = z.custom<JsonObject>(isJsonObject, { error: "is not an object" });

const TEXT_PART = z.object({
  type: z.literal("text"),
  text: TEXT,
  /** The client's mark for a provider's prompt cache, as the client wrote it. */
  cacheControl: z.exactOptional(OBJECT),
  providerMetadata: z.exactOptional(OBJECT),
});

const FILE_PART = z
  .object({
    type: z.literal("file"),
    /** For example image/png. */
    mediaType: TEXT,
    fileName: z.exactOptional(TEXT),
    blobId: z.exactOptional(TEXT.check(z.regex(BLOB_ID, { error: "does not have 64 hexadecimal digits" }))),
    /** An address that the provider fetches. */
    url: z.exactOptional(TEXT),
    /** How closely the model is to look at an image: low, high, auto. */
    detail: z.exactOptional(TEXT),
    cacheControl: z.exactOptional(OBJECT),
  })
  .check(
    z.refine(({ blobId, url }) => (blobId === undefined) !== (url === undefined), {
      error: "does not have either a blobId or a url",
    }),
  );

const REASONING_PART = z.object({
  type: z.literal("reasoning"),
  text: TEXT,
  providerMetadata: z.exactOptional(OBJECT),
});

const TOOL_CALL_PART = z.object({
  type: z.literal("tool-call"),
  /** The provider's. */
  toolCallId: TEXT,
  tool: TEXT,
  /** JSON text as the model wrote it. */
  args: TEXT,
  providerMetadata: z.exactOptional(OBJECT),
});

const TOOL_RESULT_PART = z.object({
  type: z.literal("tool-result"),
  toolCallId: TEXT,
  tool: TEXT,
  outcome: z.enum(["done", "failed", "denied", "aborted", "unknown"], { error: "is no outcome" }),
  /** What the model reads. */
  text: TEXT,
  files: z.exactOptional(z.readonly(z.array(FILE_PART, { error: "is not a list" }))),
});

/** A message's parts, each of one of these types. */
function partsOf<const Parts extends readonly [Discriminable, ...Discriminable[]]>(parts: Parts) {
  const error = objectOr("is no type of a part that a message of this role has");
  return z.readonly(
    z.array(z.discriminatedUnion("type", parts, { error }), { error: "is not a list of parts" }),
  );
}

type Discriminable = z.core.$ZodTypeDiscriminable;

/** What is wrong with a value that is of none of the known kinds. */
function objectOr(what: string) {
  return ({ input }: { readonly input?: unknown }): string =>
    isJsonObject(input) ? what : "is not an object";
}

/** Of its speaker; for providers that have a word for it. */
const name = z.exactOptional(TEXT);

const CHAT_MESSAGE = z.discriminatedUnion(
  "role",
  [
    /** Instructions that came in the middle of the conversation. Those that it began with are the system prompt. */
    z.object({ role: z.literal("system"), name, content: partsOf([TEXT_PART]) }),
    z.object({ role: z.literal("user"), name, content: partsOf([TEXT_PART, FILE_PART]) }),
    z.object({
      role: z.literal("assistant"),
      name,
      content: partsOf([TEXT_PART, REASONING_PART, TOOL_CALL_PART]),
    }),
    /** The results of one step's tool calls, in the order of the calls. */
    z.object({ role: z.literal("tool"), content: partsOf([TOOL_RESULT_PART]) }),
  ],
  { error: objectOr("is no role") },
);

export type TextPart = z.output<typeof TEXT_PART>;
export type FilePart = z.output<typeof FILE_PART>;
export type ReasoningPart = z.output<typeof REASONING_PART>;
export type ToolCallPart = z.output<typeof TOOL_CALL_PART>;
export type ToolResultPart = z.output<typeof TOOL_RESULT_PART>;
export type ChatMessage = z.output<typeof CHAT_MESSAGE>;
export type SystemChatMessage = Extract<ChatMessage, { role: "system" }>;
export type UserChatMessage = Extract<ChatMessage, { role: "user" }>;
export type AssistantChatMessage = Extract<ChatMessage, { role: "assistant" }>;
export type ToolChatMessage = Extract<ChatMessage, { role: "tool" }>;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export function encodeChatMessage(message: ChatMessage): Uint8Array {
  return encoder.encode(JSON.stringify(message));
}

/** Throws `invalid_frame`, naming what is wrong and never what it says (E4): a message that cannot be read is never skipped. */
export function decodeChatMessage(bytes: Uint8Array): ChatMessage {
  checkJson(bytes);
  let json: unknown;
  try {
    json = JSON.parse(decoder.decode(bytes));
  } catch (cause) {
    throw invalidFrame("a message of the conversation is not JSON", cause);
  }
  const { data, error } = z.safeParse(CHAT_MESSAGE, json);
  if (data !== undefined) return data;
  const [fault] = error.issues;
  const what = `${nameOf(fault?.path ?? []) || "it"} ${fault?.message ?? ""}`;
  throw invalidFrame(`a message of the conversation cannot be read: ${what}`);
}

/** What the model said in words: all its text, without reasoning and tool calls. */
export function textOf(message: ChatMessage): string {
  if (message.role === "tool") return message.content.map(({ text }) => text).join("\n");
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** Of what a JSON parser made: then every object is one of JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
