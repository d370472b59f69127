/**
 * How a turn ended, in words: what it cost, or what went wrong and what to do about it.
 */
import type { Happening, TurnFailure, Usage } from "./happening.ts";
import { safeLine } from "./safe-text.ts";
import type { Style } from "./style.ts";

type Ended = Extract<Happening, { kind: "ended" }>;

export function endLines(
  { reason, failure, usage }: Ended,
  model: string,
  elapsedMs: number,
  style: Style,
): readonly string[] {
  const cost = style.dim(costLine(model, usage, elapsedMs));
  switch (reason) {
    case "completed":
      return [cost];
    case "aborted":
      return [style.yellow("Stopped."), cost];
    case "failed":
      return [style.red(failureLine(failure)), cost];
  }
}

export function costLine(model: string, usage: Usage, elapsedMs: number): string {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens } = usage;
  // A command that was run without the agent cost nothing but time.
  if (model === "" && inputTokens + outputTokens === 0) return seconds(elapsedMs);
  const cached = [
    cacheReadTokens > 0 ? `${count(cacheReadTokens)} cached` : "",
    cacheWriteTokens > 0 ? `${count(cacheWriteTokens)} to the cache` : "",
  ].filter((part) => part !== "");
  const input = `${count(inputTokens)} in${cached.length === 0 ? "" : ` (+ ${cached.join(", ")})`}`;
  const output = `${count(outputTokens)} out${reasoningTokens > 0 ? ` (${count(reasoningTokens)} thinking)` : ""}`;
  return [safeLine(model), input, output, seconds(elapsedMs)].filter((part) => part !== "").join(" · ");
}

/** What helps, by what failed. */
const REMEDIES: Readonly<Record<string, string>> = {
  rate_limited: "wait a little, then /continue",
  model_unavailable: "/continue tries again",
  model_unauthenticated: "check the provider's API key on the server",
  model_not_found: "/models lists what there is, /model <name> chooses",
  context_too_long: "/summarize makes room",
  step_limit: "/continue goes on",
  token_limit: "/continue goes on",
  restarts_exhausted: "/continue tries again",
};

export function failureLine(failure: TurnFailure | undefined): string {
  if (failure === undefined) return "Failed, and the server did not say why.";
  const { kind, message, retryAfterMs } = failure;
  const when = retryAfterMs === undefined ? "" : ` (it asks to wait ${seconds(retryAfterMs)})`;
  const remedy = REMEDIES[kind];
  const said = safeLine(message).replace(/[.\s]+$/, "");
  return `Failed (${kind}): ${said}${when}${remedy === undefined ? "" : `; ${remedy}`}.`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en");
}

function seconds(elapsedMs: number): string {
  return elapsedMs < 100_000 ? `${(elapsedMs / 1_000).toFixed(1)} s` : `${Math.round(elapsedMs / 1_000)} s`;
}
