/**
 * What one event of a provider's stream means for the fate of the answer, in each provider's wire format. Pure.
 *
 * The answer itself is read above. These functions only distinguish content from signs of life, and find the event that says that
 * the answer is whole, and the provider's last one.
 */
import { fieldsOf } from "../../../protocol/fields.ts";
import type { Dialect } from "../dialect.ts";
import { type ProviderError, readProviderError } from "../provider-error.ts";

/** What the model was writing. */
export type Writing = "thinking" | "text" | "arguments";

/** Tokens that the provider has reported so far. */
export interface TokensSeen {
  readonly input?: number;
  readonly output?: number;
}

export interface Meaning {
  /** More of the answer. */
  readonly content?: Writing;
  /** What was being written is complete; what follows may take its time. */
  readonly endsBlock?: boolean;
  readonly isPing?: boolean;
  /** The answer is whole: whatever becomes of the connection, nothing of it is missing. Some servers say an empty reason until then. */
  readonly isFinish?: boolean;
  /** The provider says nothing behind it. */
  readonly isLast?: boolean;
  readonly error?: ProviderError;
  readonly tokens?: TokensSeen;
}

type Fields = Readonly<Record<string, unknown>>;

const NOTHING: Meaning = {};
/** Most events are one of these, so each is made once. */
const WRITTEN: Readonly<Record<string, Meaning>> = {
  thinking: { content: "thinking" },
  text: { content: "text" },
  arguments: { content: "arguments" },
};
const NONE: readonly unknown[] = [];

/** An event as it was said: its value, where it has one, and what it means. */
interface WireEvent {
  readonly value: unknown;
  readonly meaning: Meaning;
}

/** `data` of an event. Undefined: it cannot be read. */
export function wireEventOf(dialect: Dialect, data: string): WireEvent | undefined {
  if (data === "") return { value: undefined, meaning: { isPing: true } };
  if (data === "[DONE]") return { value: undefined, meaning: { isLast: true } };
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return undefined;
  }
  return { value, meaning: READERS[dialect](fieldsOf(value)) };
}

/** What must be said to the SDK in the provider's place when the connection died behind the finish marker; empty = nothing. */
export function lastWordOf(dialect: Dialect): string {
  return dialect === "anthropic" ? 'event: message_stop\ndata: {"type":"message_stop"}\n\n' : "";
}

const READERS: Readonly<Record<Dialect, (event: Fields) => Meaning>> = {
  "openai-compatible": chatChunk,
  openai: responsesEvent,
  anthropic: anthropicEvent,
  google: googleChunk,
};

function chatChunk(event: Fields): Meaning {
  if (isThere(event["error"])) return { error: readProviderError(event) };
  const choice = fieldsOf(listOf(event["choices"])[0]);
  const usage = fieldsOf(event["usage"]);
  const written = writtenOf(chatContent(fieldsOf(choice["delta"])));
  const tokens = tokensOf(usage["prompt_tokens"], usage["completion_tokens"]);
  if (isText(choice["finish_reason"])) return { ...written, isFinish: true, ...tokens };
  return tokens === NOTHING ? written : { ...written, ...tokens };
}

function writtenOf(content: Writing | undefined): Meaning {
  return WRITTEN[content ?? ""] ?? NOTHING;
}

function chatContent(delta: Fields): Writing | undefined {
  if (listOf(delta["tool_calls"]).length > 0) return "arguments";
  if (isText(delta["content"]) || isText(delta["refusal"])) return "text";
  const parts = listOf(delta["content"]).map((part) => fieldsOf(part)["type"]);
  if (parts.includes("text")) return "text";
  const isThinking = isText(delta["reasoning_content"]) || isText(delta["reasoning"]) || parts.length > 0;
  return isThinking ? "thinking" : undefined;
}

const RESPONSES_CONTENT: Readonly<Record<string, Writing>> = {
  "response.output_text.delta": "text",
  "response.refusal.delta": "text",
  "response.reasoning_summary_text.delta": "thinking",
  "response.reasoning_text.delta": "thinking",
  "response.function_call_arguments.delta": "arguments",
  "response.custom_tool_call_input.delta": "arguments",
};

const RESPONSES_ITEMS: Readonly<Record<string, Writing>> = {
  message: "text",
  reasoning: "thinking",
  function_call: "arguments",
  custom_tool_call: "arguments",
};

function responsesEvent(event: Fields): Meaning {
  const type = nameIn(event["type"]);
  switch (type) {
    case "error":
      return { error: readProviderError(event) };
    case "response.failed":
      return { error: readProviderError(event["response"]), isLast: true };
    case "response.completed":
    case "response.incomplete": {
      const usage = fieldsOf(fieldsOf(event["response"])["usage"]);
      return { isFinish: true, isLast: true, ...tokensOf(usage["input_tokens"], usage["output_tokens"]) };
    }
    case "response.output_item.added":
      return writtenOf(RESPONSES_ITEMS[nameIn(fieldsOf(event["item"])["type"])]);
    case "response.output_item.done":
      return { endsBlock: true };
    case "keepalive":
      return { isPing: true };
    default:
      return writtenOf(RESPONSES_CONTENT[type]);
  }
}

const ANTHROPIC_DELTAS: Readonly<Record<string, Writing>> = {
  text_delta: "text",
  citations_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "thinking",
  input_json_delta: "arguments",
};

const ANTHROPIC_BLOCKS: Readonly<Record<string, Writing>> = {
  text: "text",
  thinking: "thinking",
  redacted_thinking: "thinking",
  tool_use: "arguments",
};

function anthropicEvent(event: Fields): Meaning {
  switch (event["type"]) {
    case "ping":
      return { isPing: true };
    case "error":
      return { error: readProviderError(event) };
    case "message_start":
      return tokensOf(fieldsOf(fieldsOf(event["message"])["usage"])["input_tokens"], undefined);
    case "content_block_start":
      return writtenOf(ANTHROPIC_BLOCKS[nameIn(fieldsOf(event["content_block"])["type"])]);
    case "content_block_delta":
      return writtenOf(ANTHROPIC_DELTAS[nameIn(fieldsOf(event["delta"])["type"])]);
    case "content_block_stop":
      return { endsBlock: true };
    case "message_delta": {
      const tokens = tokensOf(undefined, fieldsOf(event["usage"])["output_tokens"]);
      return isText(fieldsOf(event["delta"])["stop_reason"]) ? { isFinish: true, ...tokens } : tokens;
    }
    case "message_stop":
      return { isLast: true };
    default:
      return NOTHING;
  }
}

function googleChunk(event: Fields): Meaning {
  if (isThere(event["error"])) return { error: readProviderError(event) };
  const candidate = fieldsOf(listOf(event["candidates"])[0]);
  const content = googleContent(listOf(fieldsOf(candidate["content"])["parts"]).map(fieldsOf));
  const usage = fieldsOf(event["usageMetadata"]);
  const isRefused = isThere(fieldsOf(event["promptFeedback"])["blockReason"]);
  return {
    ...writtenOf(content),
    // A continuation is another request of the SDK: this body is whole.
    ...(isRefused || isText(candidate["finishReason"]) ? { isFinish: true } : {}),
    ...tokensOf(usage["promptTokenCount"], usage["candidatesTokenCount"]),
  };
}

function googleContent(parts: readonly Fields[]): Writing | undefined {
  const last = parts.findLast((part) => isThere(part["functionCall"]) || part["text"] !== "");
  if (last === undefined) return undefined;
  if (isThere(last["functionCall"])) return "arguments";
  return last["thought"] === true ? "thinking" : "text";
}

function tokensOf(input: unknown, output: unknown): Meaning {
  if (typeof input !== "number" && typeof output !== "number") return NOTHING;
  const tokens = {
    ...(typeof input === "number" ? { input } : {}),
    ...(typeof output === "number" ? { output } : {}),
  };
  return { tokens };
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : NONE;
}

function nameIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
