/**
 * The messages of a chat request: the instructions that it begins with become the system prompt, all else the line.
 *
 * What clients add and no model needs (`annotations`, `refusal`, `parsed`) is left behind here. What some provider has a word
 * for (`name`, `detail`, `cache_control`) is kept beside the words, where the lineage does not see it: it cannot make two
 * requests differ.
 */
import { type ContentRules, contentParts, filesOfParts, textOfParts, textsOfParts } from "./chat-content.ts";
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { Fields } from "./fields.ts";
import { invalidRequest } from "./gateway-error.ts";
import { thoughtsOf } from "./reasoning-details.ts";
import type {
  AssistantLine,
  LineCall,
  LineMessage,
  LinePart,
  SystemLine,
  ToolLine,
  UserLine,
} from "./line.ts";

/** As many as a conversation can have. */
export const MESSAGES_MAX = 5_000;

/** As many as a provider was ever seen to call at once, many times over. */
const CALLS_MAX = 256;

interface ChatMessages {
  /** What comes before the first other message, in order. */
  readonly system: string;
  /** Empty when there is nothing but instructions. */
  readonly messages: readonly LineMessage[];
}

/** Throws when there are more than are taken. */
export function givenMessages(body: Fields): readonly Fields[] | undefined {
  const given = body.objects("messages");
  if (given === undefined || given.length <= MESSAGES_MAX) return given;
  const what = `has ${given.length} messages, at most ${MESSAGES_MAX} are taken: summarize the conversation`;
  throw body.wrong("messages", what);
}

export function chatMessages(body: Fields, rules: ContentRules): ChatMessages {
  const given = givenMessages(body);
  if (given === undefined || given.length === 0) {
    throw body.wrong("messages", "must be a list with at least one message");
  }
  const system: string[] = [];
  const messages: LineMessage[] = [];
  for (const message of given) {
    const role = message.needText("role");
    const line = lineOf(role, message, rules);
    if (line.role === "system" && messages.length === 0 && isPlain(line))
      system.push(textOfParts(line.parts));
    else messages.push(line);
  }
  return { system: system.filter((text) => text !== "").join("\n\n"), messages };
}

function systemLine(message: Fields, rules: ContentRules): SystemLine {
  const parts = contentParts(message, rules) ?? [];
  if (filesOfParts(parts).length > 0) {
    throw message.unsupported("content", "instructions are text; send images in a user message");
  }
  return { role: "system", ...nameOf(message), parts: textsOfParts(parts) };
}

/** Instructions with a name or a mark stay a message: the system prompt is a bare text. */
function isPlain({ name, parts }: SystemLine): boolean {
  return name === undefined && parts.every(({ cacheControl }) => cacheControl === undefined);
}

function nameOf(message: Fields): { readonly name?: string } {
  const name = message.text("name");
  return name === undefined || name === "" ? {} : { name };
}

function lineOf(role: string, message: Fields, rules: ContentRules): LineMessage {
  switch (role) {
    case "system":
    case "developer":
      return systemLine(message, rules);
    case "user":
      return userLine(message, rules);
    case "assistant":
      return assistantLine(message, rules);
    case "tool":
      return toolLine(message, rules);
    case "function":
      throw message.unsupported(
        "role",
        "function messages are outdated; send a tool message with tool_call_id",
      );
    default:
      throw message.wrong("role", "must be system, developer, user, assistant or tool");
  }
}

function userLine(message: Fields, rules: ContentRules): UserLine {
  const parts = contentParts(message, rules);
  if (parts === undefined) throw message.wrong("content", "must be given");
  return { role: "user", ...nameOf(message), parts };
}

function assistantLine(message: Fields, rules: ContentRules): AssistantLine {
  if (message.has("function_call")) {
    throw message.unsupported("function_call", "function calls are outdated; send tool_calls");
  }
  const parts = contentParts(message, rules) ?? [];
  if (filesOfParts(parts).length > 0) {
    throw message.unsupported("content", "images of the assistant cannot be sent back; leave them out");
  }
  const toolCalls = (message.objects("tool_calls") ?? []).map(callOf);
  if (toolCalls.length > CALLS_MAX) throw message.wrong("tool_calls", `has more than ${CALLS_MAX} calls`);
  if (new Set(toolCalls.map(({ id }) => id)).size < toolCalls.length) {
    throw message.wrong("tool_calls", "has two calls with one id; results could not be told apart");
  }
  return {
    role: "assistant",
    ...nameOf(message),
    ...lastMark(parts),
    text: textOfParts(parts),
    reasoning: reasoningOf(message),
    ...thoughtsOf(message),
    toolCalls,
  };
}

/** The parts become one text, and the last mark covers what the others did. */
function lastMark(parts: readonly LinePart[]): { readonly cacheControl?: JsonObject } {
  const cacheControl = parts.findLast((part) => part.cacheControl !== undefined)?.cacheControl;
  return cacheControl === undefined ? {} : { cacheControl };
}

/** Two names are in use; other forms of it belong to one provider and say nothing to ours. */
function reasoningOf(message: Fields): string {
  const value = message.raw("reasoning_content") ?? message.raw("reasoning");
  return typeof value === "string" ? value : "";
}

function callOf(call: Fields): LineCall {
  const type = call.textOr("type", "function");
  if (type !== "function") throw call.unsupported("type", "only function calls are supported");
  const id = call.needText("id");
  const made = call.needObject("function");
  return { id, name: made.needText("name"), args: made.textOr("arguments", "") };
}

function toolLine(message: Fields, rules: ContentRules): ToolLine {
  const toolCallId = message.text("tool_call_id");
  if (toolCallId === undefined || toolCallId === "") {
    const path = message.pathOf("tool_call_id");
    throw invalidRequest(path, `${path} must name the tool call that this is the result of`);
  }
  const parts = contentParts(message, rules) ?? [];
  return { role: "tool", toolCallId, text: textOfParts(parts), files: filesOfParts(parts) };
}
