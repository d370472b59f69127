/**
 * Token counts as OpenAI's clients read them: cached tokens are part of the prompt's, reasoning is part of the completion's.
 *
 * What the provider did not say is absent. No call costs nothing, so counts that are all zero were not reported.
 */
import type { Usage } from "../../turn/usage.ts";

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

export function chatUsage(usage: Usage): ChatUsage | undefined {
  const { cacheReadTokens: cached, reasoningTokens: reasoning } = usage;
  const prompt = usage.inputTokens + cached + usage.cacheWriteTokens;
  if (prompt + usage.outputTokens === 0) return undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.outputTokens,
    total_tokens: prompt + usage.outputTokens,
    ...(cached > 0 ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
    ...(reasoning > 0 ? { completion_tokens_details: { reasoning_tokens: reasoning } } : {}),
  };
}
