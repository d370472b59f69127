/**
 * What chat completions can say and a provider may have no word for, by OpenAI's names.
 *
 * `call-options.ts` and `prompt-messages.ts` give each provider what stands in its column; the gateway names the rest to its client. The
 * SDK would drop it without a word.
 */
import { ANTHROPIC_WORDS, CHAT_WORDS, WISH_WORDS, type WishWord } from "../../protocol/wish-words.ts";
import type { ProviderType } from "./dialect.ts";

const SPOKEN: Readonly<Record<ProviderType, readonly WishWord[]>> = {
  // OpenAI's responses; its chat completions, which have more words, are reached as openai-compatible.
  openai: ["parallel_tool_calls", "verbosity", "prompt_cache_key", "detail"],
  anthropic: ["stop", "top_k", "parallel_tool_calls", "cache_control", ...ANTHROPIC_WORDS],
  google: ["stop", "seed", "top_k", "presence_penalty", "frequency_penalty"],
  "openai-compatible": CHAT_WORDS,
  rehearsal: [],
};

/** Those of the names that the provider is not given. A name that is not in the list is one that every provider has. */
export function unspokenBy(type: ProviderType, names: readonly string[]): readonly string[] {
  return names.filter((name) => WISH_WORDS.some((word) => word === name && !SPOKEN[type].includes(word)));
}
