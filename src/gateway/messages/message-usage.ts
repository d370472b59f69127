/**
 * Token counts as Anthropic writes them: what was read from a cache and what was written to it are counted beside the input.
 */
import type { AnswerUsage } from "../openai/index.ts";

export interface MessageUsage {
  readonly input_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly output_tokens: number;
}

/** Of a message that has just begun: providers count at its end. */
export const NOTHING_YET: MessageUsage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
};

export function messageUsage(usage: AnswerUsage): MessageUsage {
  return {
    input_tokens: usage.inputTokens,
    cache_creation_input_tokens: usage.cacheWriteTokens,
    cache_read_input_tokens: usage.cacheReadTokens,
    output_tokens: usage.outputTokens,
  };
}
