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

const NAMES = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
] as const satisfies readonly (keyof Usage)[];

/** More than the context of any model; so many steps of it as a turn can have still fit into a field. */
const TOKENS_MAX = 0xffff_ffff;

export function cleanUsage(usage: Usage): Usage {
  const clean = { ...NO_USAGE };
  for (const name of NAMES) clean[name] = fitting(usage[name]);
  return clean;
}

export function sumOf(all: readonly (Usage | undefined)[]): Usage {
  const sum = { ...NO_USAGE };
  for (const usage of all) {
    if (usage === undefined) continue;
    for (const name of NAMES) sum[name] += usage[name];
  }
  return cleanUsage(sum);
}

/** Whether anything was counted. */
export function isCounted(usage: Usage): boolean {
  return NAMES.some((name) => usage[name] > 0);
}

export function isSameUsage(one: Usage, other: Usage): boolean {
  return NAMES.every((name) => one[name] === other[name]);
}

function fitting(tokens: number): number {
  return Number.isNaN(tokens) ? 0 : Math.min(Math.max(0, Math.round(tokens)), TOKENS_MAX);
}
