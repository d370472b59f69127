/**
 * What a request of Anthropic's own form asks of an Anthropic model: `StepOptions.anthropic_json`, read, in the SDK's words.
 *
 * Only what the SDK knows is passed on: it refuses a call for a word that it does not know, and a client says the newest ones to every server.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { StepOptions } from "../../protocol/messages.ts";

interface AnthropicWishes {
  readonly thinking?: JsonObject;
  /** Part of the tokens that the request allows; the SDK adds it to them. */
  readonly thinkingTokens: number;
  readonly metadata?: JsonObject;
  readonly effort?: string;
  readonly betas?: readonly string[];
  /** The client's marks of the system prompt, and of the end of the prompt. */
  readonly systemMark?: JsonObject;
  readonly endMark?: JsonObject;
}

export function anthropicWishes(options: StepOptions | undefined): AnthropicWishes {
  const json = options?.anthropicJson;
  const asked: unknown = json === undefined ? {} : JSON.parse(json);
  if (!isJsonObject(asked)) return { thinkingTokens: 0 };
  const { user_id: userId, system_cache_control: systemMark, end_cache_control: endMark } = asked;
  const thinking = isJsonObject(asked["thinking"]) ? thinkingOf(asked["thinking"]) : undefined;
  const { effort, betas } = asked;
  const budget = thinking?.["budgetTokens"];
  return {
    ...(thinking === undefined ? {} : { thinking }),
    thinkingTokens: typeof budget === "number" ? budget : 0,
    ...(typeof userId === "string" ? { metadata: { userId } } : {}),
    ...(typeof effort === "string" && EFFORTS.has(effort) ? { effort } : {}),
    ...(Array.isArray(betas) ? { betas: betas.map(String) } : {}),
    ...(isJsonObject(systemMark) ? { systemMark } : {}),
    ...(isJsonObject(endMark) ? { endMark } : {}),
  };
}

const EFFORTS: ReadonlySet<string> = new Set(["low", "medium", "high", "xhigh", "max"]);
const DISPLAYS: ReadonlySet<unknown> = new Set(["omitted", "summarized", "updates"]);

function thinkingOf({ type, budget_tokens: budget, display }: JsonObject): JsonObject | undefined {
  switch (type) {
    case "enabled":
      return { type, ...(typeof budget === "number" ? { budgetTokens: budget } : {}) };
    case "adaptive":
      return { type, ...(DISPLAYS.has(display) && display !== undefined ? { display } : {}) };
    case "disabled":
    case "between_tools":
      return { type };
    default:
      return undefined;
  }
}
