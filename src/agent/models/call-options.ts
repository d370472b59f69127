/**
 * How the model is to be called: our step options, in the words of the SDK and of each provider.
 *
 * Absent stays absent: a default of ours would be one more thing that a new model may refuse.
 */
import type {
  JSONObject,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
} from "@ai-sdk/provider";
import { createHash } from "node:crypto";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import {
  type ResponseFormat,
  type StepOptions,
  type ToolChoice,
  ToolChoiceMode,
} from "../../protocol/messages.ts";
import { type ModelCall, ModelFailure, type ModelTool } from "../model.ts";
import { anthropicWishes } from "./anthropic-wishes.ts";
import { type Dialect, NAMESPACES } from "./dialect.ts";

type CallOptions = Omit<LanguageModelV4CallOptions, "prompt" | "abortSignal">;
type OptionsRequest = Pick<ModelCall, "tools" | "options" | "conversationId">;

/** OpenAI takes no longer name for a prompt cache. */
const CACHE_NAME_CHARS_MAX = 64;

export function callOptionsOf(
  call: OptionsRequest,
  dialect: Dialect,
  outputTokensMax: number | undefined,
): CallOptions {
  const { options, tools } = call;
  const { thinkingTokens } = dialect === "anthropic" ? anthropicWishes(options) : { thinkingTokens: 0 };
  const allowed = lower(options?.maxOutputTokens, outputTokensMax);
  const maxOutputTokens = allowed === undefined ? undefined : Math.max(1, allowed - thinkingTokens);
  // Chat completions have two names for it. Reasoning models refuse the older one, some servers know no other.
  const isRenamed = dialect === "openai-compatible" && options?.limitsCompletion === true;
  const own = {
    ...(isRenamed && maxOutputTokens !== undefined ? { max_completion_tokens: maxOutputTokens } : {}),
    ...ownOptions(call, dialect),
  };
  return {
    ...(tools.length > 0 ? { tools: tools.map(functionTool) } : {}),
    ...(isRenamed || maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(options === undefined ? {} : plainOptions(options, tools.length > 0)),
    ...reasoning(options?.reasoningEffort, dialect),
    // The SDK checks them by a schema, which takes longer than to write the request.
    ...(dialect === "openai-compatible" && Object.keys(own).length === 0
      ? {}
      : { providerOptions: { [NAMESPACES[dialect]]: own } }),
  };
}

function plainOptions(options: StepOptions, hasTools: boolean): CallOptions {
  const { temperature, topP, topK, seed, presencePenalty, frequencyPenalty, stop } = options;
  const toolChoice = hasTools ? choiceOf(options.toolChoice) : undefined;
  const responseFormat = formatOf(options.responseFormat);
  return {
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...(responseFormat === undefined ? {} : { responseFormat }),
    ...(stop.length > 0 ? { stopSequences: stop } : {}),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(topK === undefined ? {} : { topK }),
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(presencePenalty === undefined ? {} : { presencePenalty }),
    ...(frequencyPenalty === undefined ? {} : { frequencyPenalty }),
  };
}

function lower(asked: number | undefined, limit: number | undefined): number | undefined {
  return asked === undefined || limit === undefined ? (asked ?? limit) : Math.min(asked, limit);
}

function functionTool({ name, description, parameters, strict }: ModelTool): LanguageModelV4FunctionTool {
  return { type: "function", name, description, inputSchema: parameters, ...(strict ? { strict } : {}) };
}

function choiceOf(asked: ToolChoice | undefined): LanguageModelV4ToolChoice | undefined {
  const choice = asked?.choice;
  if (choice?.case === "tool") return { type: "tool", toolName: choice.value };
  switch (choice?.value) {
    case ToolChoiceMode.AUTO:
      return { type: "auto" };
    case ToolChoiceMode.NONE:
      return { type: "none" };
    case ToolChoiceMode.REQUIRED:
      return { type: "required" };
    default:
      return undefined;
  }
}

function formatOf(asked: ResponseFormat | undefined): CallOptions["responseFormat"] {
  const format = asked?.format;
  if (format?.case === "text") return { type: "text" };
  if (format?.case !== "json") return undefined;
  const { schemaJson, name, description } = format.value;
  return {
    type: "json",
    ...(schemaJson === undefined ? {} : { schema: parsed(schemaJson, "the schema of the response format") }),
    ...(name === "" ? {} : { name }),
    ...(description === "" ? {} : { description }),
  };
}

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

function reasoning(effort: string | undefined, dialect: Dialect): CallOptions | object {
  const known = EFFORTS.find((name) => name === effort);
  if (known !== undefined) return { reasoning: known };
  if (effort === undefined || dialect === "openai" || dialect === "openai-compatible") return {};
  throw invalid(`the reasoning effort is one of ${EFFORTS.join(", ")}, not ${JSON.stringify(effort)}`);
}

/** What only one provider has a word for, and what the caller wants to tell it directly: that wins. */
function ownOptions({ options, conversationId }: OptionsRequest, dialect: Dialect): JSONObject {
  const asked =
    options?.providerOptionsJson === undefined
      ? {}
      : parsed(options.providerOptionsJson, "provider_options_json");
  return { ...dialectOptions(options, conversationId, dialect), ...asked };
}

function dialectOptions(
  options: StepOptions | undefined,
  conversationId: string,
  dialect: Dialect,
): JSONObject {
  const { parallelToolCalls: parallel, reasoningEffort, topK, responseFormat } = options ?? {};
  const effort = EFFORTS.some((name) => name === reasoningEffort) ? undefined : reasoningEffort;
  const format = responseFormat?.format;
  const strictness = format?.case === "json" ? { strictJsonSchema: format.value.strict } : {};
  const { verbosity, promptCacheKey, logitBiasJson, predictionJson } = options ?? {};
  switch (dialect) {
    case "openai":
      return {
        // The conversation is the client's: OpenAI keeps nothing, and reasoning travels sealed.
        store: false,
        ...cacheKey(promptCacheKey, conversationId),
        ...(verbosity === undefined ? {} : { textVerbosity: verbosity }),
        ...(parallel === undefined ? {} : { parallelToolCalls: parallel }),
        ...(effort === undefined ? {} : { reasoningEffort: effort }),
        ...strictness,
      };
    case "openai-compatible":
      return {
        ...(parallel === undefined ? {} : { parallel_tool_calls: parallel }),
        ...(effort === undefined ? {} : { reasoningEffort: effort }),
        ...(topK === undefined ? {} : { top_k: topK }),
        ...(verbosity === undefined ? {} : { verbosity }),
        ...(promptCacheKey === undefined ? {} : { prompt_cache_key: promptCacheKey }),
        ...(logitBiasJson === undefined ? {} : { logit_bias: parsed(logitBiasJson, "logit_bias_json") }),
        ...(predictionJson === undefined ? {} : { prediction: parsed(predictionJson, "prediction_json") }),
        ...strictness,
      };
    case "anthropic": {
      const { thinking, metadata, effort: ownEffort, betas } = anthropicWishes(options);
      return {
        ...(parallel === false ? { disableParallelToolUse: true } : {}),
        ...(thinking === undefined ? {} : { thinking }),
        ...(metadata === undefined ? {} : { metadata }),
        ...(ownEffort === undefined ? {} : { effort: ownEffort }),
        ...(betas === undefined ? {} : { anthropicBeta: betas }),
      };
    }
    case "google":
      return {};
  }
}

/** The caller's as it stands; a conversation's id is made fit. */
function cacheKey(asked: string | undefined, conversationId: string): { promptCacheKey?: string } {
  if (asked !== undefined) return { promptCacheKey: asked };
  if (conversationId === "") return {};
  if (conversationId.length <= CACHE_NAME_CHARS_MAX) return { promptCacheKey: conversationId };
  return { promptCacheKey: createHash("sha256").update(conversationId).digest("hex") };
}

function parsed(json: string, what: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw invalid(`${what} is not JSON`);
  }
  if (!isJsonObject(value)) throw invalid(`${what} is not a JSON object`);
  return value;
}

function invalid(message: string): ModelFailure {
  return new ModelFailure("invalid_request", message);
}
