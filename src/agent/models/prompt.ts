/**
 * The conversation as a provider gets it.
 *
 * The one idea: every message is translated by itself, from nothing but itself and its neighbours, so the same
 * messages give the same bytes and each prompt begins with the one before. No words are made up: messages in a
 * row, blank ones and a trailing answer go out as they are, or as close to it as the provider takes them. The one thing that
 * is added is the result of a call that has none, because every provider refuses such a call.
 *
 * Invariant: the prompt of messages[0..n] is a prefix of the prompt of messages[0..m], n < m, when messages[n] is
 * a user's or a tool's. Anthropic's cache marks move; they are no part of what is cached. Google takes instructions only
 * at the beginning: there those from the middle of a conversation change it.
 */
import type { LanguageModelV4Prompt } from "@ai-sdk/provider";
import {
  type AssistantChatMessage,
  type ChatMessage,
  textOf,
  type ToolCallPart,
  type ToolResultPart,
} from "../../protocol/chat-message.ts";
import { fitForAnthropic, withCacheMarks } from "./anthropic-prompt.ts";
import { anthropicWishes } from "./anthropic-wishes.ts";
import type { Dialect } from "./dialect.ts";
import { type PromptRequest, Teller } from "./prompt-messages.ts";

/** `modelId`: the model that gets the prompt. */
export async function promptOf(
  call: PromptRequest,
  dialect: Dialect,
  modelId?: string,
): Promise<LanguageModelV4Prompt> {
  const teller = new Teller(call.file, dialect, modelId);
  const { system, messages } = placed(call, dialect);
  const prompt: LanguageModelV4Prompt = [];
  if (system !== "") prompt.push({ role: "system", content: system });
  for (const [at, message] of messages.entries()) {
    const told = teller.tell(message);
    prompt.push(...(told instanceof Promise ? await told : told));
    const missing = unansweredAt(messages, at);
    if (missing.length > 0)
      prompt.push(...(await teller.tell({ role: "tool", content: missing.map(unanswered) })));
  }
  return dialect === "anthropic" ? withCacheMarks(prompt, anthropicWishes(call.options)) : prompt;
}

/** Each provider's idea of where messages may stand. */
function placed(
  { system, messages }: PromptRequest,
  dialect: Dialect,
): { readonly system: string; readonly messages: readonly ChatMessage[] } {
  if (dialect === "anthropic") return { system, messages: fitForAnthropic(messages) };
  if (dialect !== "google") return { system, messages };
  const later = messages.filter(({ role }) => role === "system").map(textOf);
  const instructions = [system, ...later].filter((text) => text !== "").join("\n\n");
  return { system: instructions, messages: messages.filter(({ role }) => role !== "system") };
}

/** The calls that must be answered before the message behind messages[at] may follow. */
function unansweredAt(messages: readonly ChatMessage[], at: number): readonly ToolCallPart[] {
  const answered = new Set<string>();
  if (messages[at + 1]?.role === "tool") return [];
  for (let place = at; place >= 0; place--) {
    const message = messages[place];
    if (message?.role === "assistant")
      return toolCallsOf(message).filter((part) => !answered.has(part.toolCallId));
    if (message?.role !== "tool") return [];
    for (const { toolCallId } of message.content) answered.add(toolCallId);
  }
  return [];
}

function toolCallsOf({ content }: AssistantChatMessage): readonly ToolCallPart[] {
  return content.filter((part) => part.type === "tool-call");
}

function unanswered({ toolCallId, tool }: ToolCallPart): ToolResultPart {
  const text = "the conversation has no result of this call.";
  return { type: "tool-result", toolCallId, tool, outcome: "unknown", text };
}
