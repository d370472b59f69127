/**
 * What a request asks for beside its words and tools: by name, so that none of it is dropped in silence.
 *
 * Some of it goes to every provider, some only to those that have a word for it, some to none. Which is which decides what the
 * response's `x-holdfast-ignored` says; here a request only says what it asked for.
 */
import { BODY_WORDS } from "../../protocol/wish-words.ts";
import type { Fields } from "./fields.ts";

export interface Wishes {
  /** OpenAI's names of what a provider may have no word for. */
  readonly words: readonly string[];
  /** What goes to no provider. */
  readonly ignored: readonly string[];
}

/** Members of the body that are read, or refused, by others. */
const READ: ReadonlySet<string> = new Set([
  "model",
  "models",
  "messages",
  "stream",
  "stream_options",
  "tools",
  "tool_choice",
  "response_format",
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "reasoning",
  "reasoning_effort",
  "n",
  "logprobs",
  "top_logprobs",
  "modalities",
]);

const WORDS: ReadonlySet<string> = new Set(BODY_WORDS);

export function wishesOf(body: Fields): Wishes {
  const given = body.names.filter((name) => body.has(name) && !READ.has(name));
  const messages = body.objects("messages") ?? [];
  const tools = body.objects("tools") ?? [];
  const said = messages.filter((message) => message.raw("role") !== "tool");
  const results = messages.filter((message) => message.raw("role") === "tool");
  const words = [
    ...given.filter((name) => WORDS.has(name)),
    ...(said.some((message) => message.has("name")) ? ["name"] : []),
    ...(said.some(isDetailed) ? ["detail"] : []),
    ...(said.some(isMarked) ? ["cache_control"] : []),
  ];
  const ignored = [
    ...given.filter((name) => !WORDS.has(name)),
    ...(tools.some((tool) => tool.has("cache_control")) ? ["tools.cache_control"] : []),
    ...(results.some(isMarked) ? ["tool.cache_control"] : []),
    ...(results.some(isDetailed) ? ["tool.detail"] : []),
  ];
  return { words, ignored };
}

function partsOf(message: Fields): readonly Fields[] {
  return Array.isArray(message.raw("content")) ? (message.objects("content") ?? []) : [];
}

function isDetailed(message: Fields): boolean {
  return partsOf(message).some(
    (part) => typeof part.raw("image_url") === "object" && part.needObject("image_url").has("detail"),
  );
}

function isMarked(message: Fields): boolean {
  return message.has("cache_control") || partsOf(message).some((part) => part.has("cache_control"));
}

const NAMES_MAX = 32;
const NAME = /^[\w.-]{1,64}$/;

/** The value of `x-holdfast-ignored`; undefined when nothing was. A client's odd names are not repeated. */
export function ignoredHeader(names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined;
  const named = names.map((name) => (NAME.test(name) ? name : "?"));
  return [...named.slice(0, NAMES_MAX), ...(names.length > NAMES_MAX ? ["..."] : [])].join(", ");
}
