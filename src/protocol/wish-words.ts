/**
 * What a chat completions request can ask for and a provider may have no word for, by OpenAI's names.
 *
 * The gateway finds these names in a request; the models say which of them a provider is given. One list serves both, so that
 * a name which one side learns cannot be dropped in silence by the other.
 */

/** Members of the request's body. */
export const BODY_WORDS = [
  "stop",
  "seed",
  "top_k",
  "presence_penalty",
  "frequency_penalty",
  "parallel_tool_calls",
  "logit_bias",
  "verbosity",
  "prediction",
  "prompt_cache_key",
] as const;

/** What stands in its messages: a speaker's name, an image's detail, a mark for the provider's cache. */
const MESSAGE_WORDS = ["name", "detail", "cache_control"] as const;

/** What Anthropic's own form can say, and no other provider is given. */
export const ANTHROPIC_WORDS = [
  "thinking",
  "metadata.user_id",
  "output_config.effort",
  "anthropic-beta",
] as const;

/** What other servers of chat completions are given. */
export const CHAT_WORDS = [...BODY_WORDS, ...MESSAGE_WORDS] as const;
export const WISH_WORDS = [...CHAT_WORDS, ...ANTHROPIC_WORDS] as const;
export type WishWord = (typeof WISH_WORDS)[number];
