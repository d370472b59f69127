/**
 * Token counts as the Responses API writes them. No call costs nothing, so counts that are all zero were never given, and are null.
 */
import type { Usage } from "../../turn/usage.ts";

/** An alias, because it is JSON and has to fit where JSON is asked for. */
type ResponseUsage = {
  readonly input_tokens: number;
  readonly input_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly output_tokens: number;
  readonly output_tokens_details: { readonly reasoning_tokens: number };
  readonly total_tokens: number;
};

export function responseUsage(usage: Usage): ResponseUsage | null {
  const { cacheReadTokens, cacheWriteTokens, outputTokens, reasoningTokens } = usage;
  const input = usage.inputTokens + cacheReadTokens + cacheWriteTokens;
  if (input + outputTokens === 0) return null;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cacheReadTokens, cache_write_tokens: cacheWriteTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: input + outputTokens,
  };
}
