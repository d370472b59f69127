/**
 * Counted tokens, as they stand in events: whole numbers that fit, whatever a provider says.
 */

export interface Usage {
  /** Not counting what came from the cache. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
}

export const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

/** More than the context of any model; so many steps of it as a turn can have still fit into a field. */
const TOKENS_MAX = 0xffff_ffff;

export function cleanUsage(usage: Usage): Usage {
  return mapped((name) => fitting(usage[name]));
}

export function sumOf(all: readonly (Usage | undefined)[]): Usage {
  return mapped((name) => fitting(all.reduce((total, usage) => total + (usage?.[name] ?? 0), 0)));
}

/** Whether anything was counted. */
export function isCounted(usage: Usage): boolean {
  return Object.values(usage).some((tokens) => tokens > 0);
}

export function isSameUsage(one: Usage, other: Usage): boolean {
  return !isCounted(mapped((name) => Math.abs(one[name] - other[name])));
}

function mapped(tokens: (name: keyof Usage) => number): Usage {
  return {
    inputTokens: tokens("inputTokens"),
    outputTokens: tokens("outputTokens"),
    cacheReadTokens: tokens("cacheReadTokens"),
    cacheWriteTokens: tokens("cacheWriteTokens"),
    reasoningTokens: tokens("reasoningTokens"),
  };
}

function fitting(tokens: number): number {
  return Number.isNaN(tokens) ? 0 : Math.min(Math.max(0, Math.round(tokens)), TOKENS_MAX);
}
