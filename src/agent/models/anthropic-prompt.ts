/**
 * What Anthropic alone minds in a conversation: texts of nothing but white space, and where its cache marks stand.
 *
 * It refuses a text that is blank, so a blank one is joined to the text beside it, which changes no word. A message of which
 * nothing is left is left out, and the messages around it are joined; the last one is sent all the same, so that the client
 * hears from Anthropic what is wrong with it.
 */
import type { LanguageModelV4Prompt, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { ChatMessage, JsonObject, TextPart } from "../../protocol/chat-message.ts";
import { NAMESPACES } from "./dialect.ts";

export function fitForAnthropic(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.flatMap((message, at): readonly ChatMessage[] => {
    const fit = withoutBlanks(message);
    return fit.content.length > 0 ? [fit] : at === messages.length - 1 ? [message] : [];
  });
}

function withoutBlanks(message: ChatMessage): ChatMessage {
  switch (message.role) {
    case "system":
      return { ...message, content: joinedBlanks(message.content) };
    case "user":
      return { ...message, content: joinedBlanks(message.content) };
    case "assistant":
      return { ...message, content: joinedBlanks(message.content) };
    case "tool":
      return message;
  }
}

/** Behind the text before it, or before the text behind it. */
function joinedBlanks<Part extends { readonly type: string }>(
  parts: readonly (TextPart | Part)[],
): readonly (TextPart | Part)[] {
  const joined: (TextPart | Part)[] = [];
  let ahead = "";
  for (const part of parts) {
    const before = joined.at(-1);
    if (!isPlain(part)) {
      joined.push(part);
      ahead = "";
    } else if (part.text.trim() !== "") {
      joined.push({ ...part, text: ahead + part.text });
      ahead = "";
    } else if (before !== undefined && isPlain(before)) {
      const { cacheControl = before.cacheControl } = part;
      const marked = cacheControl === undefined ? {} : { cacheControl };
      joined.splice(-1, 1, { ...before, text: before.text + part.text, ...marked });
    } else {
      ahead += part.text;
    }
  }
  return joined;
}

/** Not one that Anthropic has signed: that goes back as it is. */
function isPlain(part: TextPart | { readonly type: string }): part is TextPart {
  if (part.type !== "text") return false;
  const metadata: unknown = "providerMetadata" in part ? part.providerMetadata : undefined;
  return typeof metadata !== "object" || metadata === null || !(NAMESPACES.anthropic in metadata);
}

/** Anthropic's mark: everything up to here is worth keeping. */
const EPHEMERAL: JsonObject = { type: "ephemeral" };

function cached(cacheControl: JsonObject): SharedV4ProviderOptions {
  return { [NAMESPACES.anthropic]: { cacheControl } };
}

/** Anthropic takes four; one is the system prompt's. */
const MARKS_MAX = 3;

/**
 * The system prompt (and the tools before it), the end of this prompt, and the end of the one before: a step adds one
 * answer and one message of results, so the mark that was last is the last but one now. A client that sets marks of its own
 * knows better: then its last ones hold. They move through a conversation, and older ones stand where they once were. `endMark`: the client has marked the
 * end of the prompt, where a tool's result may stand, which has no mark of its own.
 */
export function withCacheMarks(
  prompt: LanguageModelV4Prompt,
  {
    systemMark = EPHEMERAL,
    endMark,
  }: { readonly systemMark?: JsonObject; readonly endMark?: JsonObject } = {},
): LanguageModelV4Prompt {
  const [first] = prompt;
  const rest = first?.role === "system" ? prompt.slice(1) : prompt;
  const system =
    first?.role === "system"
      ? [markOf(first) === undefined ? { ...first, providerOptions: cached(systemMark) } : first]
      : [];
  const isClients = marksIn(rest) > 0;
  if (!isClients) return [...system, ...withEndMarks(rest, 2, endMark)];
  if (endMark === undefined) return [...system, ...withLastMarks(rest, MARKS_MAX)];
  return [...system, ...withEndMarks(withLastMarks(rest, MARKS_MAX - 1), 1, endMark)];
}

/** So many of the last messages that ask for something. */
function withEndMarks(
  prompt: LanguageModelV4Prompt,
  count: number,
  mark: JsonObject = EPHEMERAL,
): LanguageModelV4Prompt {
  const asking = prompt.flatMap(({ role }, at) => (role === "user" || role === "tool" ? [at] : []));
  const ends = new Set(asking.slice(-count));
  const providerOptions = cached(mark);
  return prompt.map((message, at) => (ends.has(at) ? { ...message, providerOptions } : message));
}

function withLastMarks(prompt: LanguageModelV4Prompt, marksMax: number): LanguageModelV4Prompt {
  let toDrop = marksIn(prompt) - marksMax;
  const kept = <Held extends Marked>(held: Held): Held => {
    if (markOf(held) === undefined || toDrop-- <= 0) return held;
    const { cacheControl: _, ...own } = held.providerOptions?.[NAMESPACES.anthropic] ?? {};
    return { ...held, providerOptions: { ...held.providerOptions, [NAMESPACES.anthropic]: own } };
  };
  return prompt.map((message) => {
    switch (message.role) {
      case "system":
      case "tool":
        return kept(message);
      case "user":
        return kept({ ...message, content: message.content.map(kept) });
      case "assistant":
        return kept({ ...message, content: message.content.map(kept) });
    }
  });
}

interface Marked {
  readonly providerOptions?: SharedV4ProviderOptions;
}

function markOf({ providerOptions }: Marked): unknown {
  return providerOptions?.[NAMESPACES.anthropic]?.["cacheControl"];
}

function marksIn(prompt: LanguageModelV4Prompt): number {
  const held = prompt.flatMap((message): readonly Marked[] =>
    message.role === "user" || message.role === "assistant" ? [...message.content, message] : [message],
  );
  return held.filter((one) => markOf(one) !== undefined).length;
}
