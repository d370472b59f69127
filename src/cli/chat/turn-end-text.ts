/**
 * How a turn ended, in words: what it cost, or what went wrong and what to do about it.
 */
import type { TurnEnd, UsageView } from "../../client/index.ts";
import { enumName } from "../../protocol/enum-name.ts";
import { FailureKind } from "../../protocol/messages.ts";
import { safeLine } from "./safe-text.ts";
import type { Style } from "./style.ts";

export interface TurnFailure {
  /** A word of a closed list, for example `rate_limited`. */
  readonly kind: string;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
}

export function endLines(end: TurnEnd, model: string, elapsedMs: number, style: Style): readonly string[] {
  const cost = style.dim(costLine(model, end.usage, elapsedMs));
  switch (end.reason) {
    case "completed":
      return [cost];
    case "aborted":
      return [style.yellow("Stopped."), cost];
    case "failed":
    case "lost":
    case "left":
      return [style.red(failureLine(failureOf(end, "this client has let go of the turn"))), cost];
  }
}

/** Undefined for a turn that did not fail, and for a failure that the server did not explain. `lost`: the words for one that is lost. */
export function failureOf({ reason, failure, error }: TurnEnd, lost: string): TurnFailure | undefined {
  if (reason === "lost" || reason === "left")
    return {
      kind: error?.code ?? "connection_lost",
      message: error?.message ?? lost,
      retryAfterMs: undefined,
    };
  if (failure === undefined) return undefined;
  const { kind, message, retryAfterMs } = failure;
  return { kind: failureWord(kind), message, retryAfterMs };
}

/** As in the contract, in small letters and without the prefix. */
function failureWord(kind: FailureKind): string {
  const name = enumName(FailureKind, kind)?.toLowerCase();
  return name === undefined || name === "unspecified" ? "internal" : name;
}

function costLine(model: string, usage: UsageView, elapsedMs: number): string {
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
  step_limit: "/continue allows more",
  token_limit: "/continue allows more",
  restarts_exhausted: "/continue tries again",
};

/** For scripts, which have no commands to type. */
export const SCRIPT_REMEDIES: typeof REMEDIES = {
  rate_limited: "wait a little, then try again",
  model_unavailable: "try again later",
  model_unauthenticated: REMEDIES["model_unauthenticated"] ?? "",
  model_not_found: "-m <provider/model> chooses another; /models in an interactive chat lists what there is",
  context_too_long: "/summarize in an interactive chat --continue makes room",
  step_limit: "--continue with another message allows more",
  token_limit: "--continue with another message allows more",
  restarts_exhausted: "try again later",
};

export function failureLine(failure: TurnFailure | undefined, remedies = REMEDIES): string {
  if (failure === undefined) return "Failed, and the server did not say why.";
  const { kind, message, retryAfterMs } = failure;
  const when = retryAfterMs === undefined ? "" : ` (it asks to wait ${seconds(retryAfterMs)})`;
  const remedy = remedies[kind];
  const said = safeLine(message).replace(/[.\s]+$/, "");
  return `Failed (${kind}): ${said}${when}${remedy === undefined ? "" : `; ${remedy}`}.`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en");
}

function seconds(elapsedMs: number): string {
  return elapsedMs < 100_000 ? `${(elapsedMs / 1_000).toFixed(1)} s` : `${Math.round(elapsedMs / 1_000)} s`;
}
