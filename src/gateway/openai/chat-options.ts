/**
 * How a chat request wants the model to be called: sampling, limits, the form of the answer.
 *
 * They are outside the lineage: a client may change them from request to request, and they apply from the next step on.
 * Absent stays absent, so that a model's own defaults hold.
 */
import type { MessageInitShape } from "../../protocol/message.ts";
import type { ResponseFormatSchema, StepOptionsSchema } from "../../protocol/messages.ts";
import { type RequestTool, toolChoice } from "./chat-tools.ts";
import type { Fields } from "./fields.ts";

export type StepOptionsInit = MessageInitShape<typeof StepOptionsSchema>;
type ResponseFormatInit = MessageInitShape<typeof ResponseFormatSchema>;

const STOPS_MAX = 4;
export const UINT32_MAX = 0xffff_ffff;

export function chatOptions(body: Fields, tools: readonly RequestTool[]): StepOptionsInit {
  const all = {
    toolChoice: toolChoice(body, tools),
    responseFormat: formatOf(body.object("response_format"), (format) => format.needObject("json_schema")),
    stop: stops(body),
    temperature: body.number("temperature", 0, 2),
    topP: body.number("top_p", 0, 1),
    topK: body.whole("top_k", 0, UINT32_MAX),
    // The newer name first: clients that send both mean it.
    maxOutputTokens:
      body.whole("max_completion_tokens", 1, UINT32_MAX) ?? body.whole("max_tokens", 1, UINT32_MAX),
    presencePenalty: body.number("presence_penalty", -2, 2),
    frequencyPenalty: body.number("frequency_penalty", -2, 2),
    seed: seedOf(body),
    reasoningEffort: effortOf(body),
    parallelToolCalls: body.flag("parallel_tool_calls"),
    limitsCompletion: body.has("max_completion_tokens") ? true : undefined,
    verbosity: body.text("verbosity"),
    promptCacheKey: body.text("prompt_cache_key"),
    logitBiasJson: jsonOf(body, "logit_bias"),
    predictionJson: jsonOf(body, "prediction"),
  };
  return withoutAbsent(all);
}

/** An absent field and one that is undefined are two things to the protocol's `create`. */
export function withoutAbsent<T extends object>(all: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const present: { [Name in keyof T]?: Exclude<T[Name], undefined> } = {};
  for (const name in all) {
    const value = all[name];
    if (isPresent(value)) present[name] = value;
  }
  return present;
}

function isPresent<T>(value: T): value is Exclude<T, undefined> {
  return value !== undefined;
}

/** As the client wrote it: what it may hold is the provider's affair. */
function jsonOf(body: Fields, name: string): string | undefined {
  return body.object(name) === undefined ? undefined : JSON.stringify(body.raw(name));
}

function seedOf(body: Fields): bigint | undefined {
  const seed = body.whole("seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  return seed === undefined ? undefined : BigInt(seed);
}

/** Two forms are in use: a word, and an object with the word. */
function effortOf(body: Fields): string | undefined {
  const reasoning = body.raw("reasoning");
  const nested = typeof reasoning === "object" ? body.object("reasoning")?.text("effort") : undefined;
  return body.text("reasoning_effort") ?? nested;
}

function stops(body: Fields): string[] | undefined {
  const given = body.raw("stop");
  if (given === undefined) return undefined;
  const list = typeof given === "string" ? [given] : body.list("stop");
  const texts = (list ?? []).filter((stop) => typeof stop === "string");
  if (texts.length !== list?.length || texts.length > STOPS_MAX || texts.includes("")) {
    throw body.wrong(
      "stop",
      `must be a string or a list of at most ${STOPS_MAX} strings, none of them empty`,
    );
  }
  return texts;
}

/** `schemaOf`: where the format has its name and its schema. `name`: of a schema without one. */
export function formatOf(
  format: Fields | undefined,
  schemaOf: (format: Fields) => Fields,
  name?: string,
): ResponseFormatInit | undefined {
  if (format === undefined) return undefined;
  const type = format.needText("type");
  switch (type) {
    case "text":
      return { format: { case: "text", value: {} } };
    case "json_object":
      return { format: { case: "json", value: {} } };
    case "json_schema":
      return jsonSchema(schemaOf(format), name);
    default:
      throw format.wrong("type", "must be text, json_object or json_schema");
  }
}

function jsonSchema(given: Fields, name: string | undefined): ResponseFormatInit {
  const schema = given.object("schema") === undefined ? undefined : given.raw("schema");
  return {
    format: {
      case: "json",
      value: {
        name: name === undefined ? given.needText("name") : given.textOr("name", name),
        description: given.textOr("description", ""),
        strict: given.flag("strict") ?? false,
        ...(schema === undefined ? {} : { schemaJson: JSON.stringify(schema) }),
      },
    },
  };
}
