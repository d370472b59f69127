/**
 * The body of `POST /v1/messages`, read and checked as a whole before anything happens.
 *
 * Members that no model here is given (`context_management`, `mcp_servers` ...), tools that Anthropic runs itself and blocks of such tools are left out and
 * named in `x-holdfast-ignored`: Claude Code sends them to every server, and answers a 400 by trying again without them.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import { ToolChoiceMode } from "../../protocol/messages.ts";
import {
  type AnswerRequest,
  cacheControlOf,
  type ContentRules,
  distinct,
  Fields,
  formatOf,
  functionTool,
  type RequestTool,
  type StepOptionsInit,
  TOOLS_MAX,
  UINT32_MAX,
  withoutAbsent,
} from "../openai/index.ts";
import { blocksOf } from "./message-content.ts";
import { messageLines } from "./message-lines.ts";

/** `betas` is the header `anthropic-beta`. Throws a GatewayError that names the field. */
export function parseMessageRequest(value: unknown, rules: ContentRules, betas = ""): AnswerRequest {
  const body = new Fields(value, "");
  const model = body.needText("model");
  const ignored = new Set(body.names.filter((name) => body.has(name) && !READ.has(name)));
  const reader = { rules, ignore: (name: string) => void ignored.add(name) };
  const { system: first, messages, endMark } = messageLines(body, reader);
  const { texts, mark } = systemOf(body);
  const tools = toolsOf(body, reader.ignore);
  const toolChoice = choiceOf(body, tools, reader.ignore);
  const stream = body.flag("stream") ?? false;
  const output = body.object("output_config");
  for (const name of output?.names ?? []) if (!OUTPUT.has(name)) reader.ignore(`output_config.${name}`);
  const passed = passedBetas(betas, reader.ignore);
  return {
    model,
    fallbacks: [],
    stream,
    includeUsage: true,
    system: [...texts, ...first].filter((text) => text !== "").join("\n\n"),
    messages,
    tools,
    options: {
      ...optionsOf(body, toolChoice),
      ...(stream ? { shownIsFinal: true } : {}),
      ...ownOptions(body, { systemMark: mark, endMark, betas: passed }),
    },
    wishes: { words: wordsOf(body, mark ?? endMark, passed), ignored: [...ignored] },
  };
}

const READ: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "max_tokens",
  "metadata",
  "output_config",
  "stop_sequences",
  "stream",
  "temperature",
  "thinking",
  "tool_choice",
  "tools",
  "top_k",
  "top_p",
]);

const OUTPUT: ReadonlySet<string> = new Set(["effort", "format"]);

/** Betas that change how a model works. Others change the request and the response, which the SDK would have to know. */
const PASSED =
  /^(?:interleaved-thinking|context-1m|output-128k|fine-grained-tool-streaming)-\d{4}-\d{2}-\d{2}$/;
const BETAS_MAX = 64;

function passedBetas(header: string, ignore: (name: string) => void): readonly string[] {
  const named = header.split(",", BETAS_MAX).map((name) => name.trim());
  const isPassed = (name: string): boolean => PASSED.test(name);
  if (named.some((name) => name !== "" && !isPassed(name))) ignore("anthropic-beta");
  return [...new Set(named.filter(isPassed))];
}

/** What Claude Code says to Anthropic's accounts and to no model. It differs from request to request. */
const BILLING = /^x-anthropic-billing-header:/;

function systemOf(body: Fields): { readonly texts: readonly string[]; readonly mark?: JsonObject } {
  const blocks = blocksOf(body, "system");
  if (typeof blocks === "string") return { texts: [blocks] };
  const said = blocks.filter((block) => !BILLING.test(block.textOr("text", "")));
  const mark = said.map((block) => cacheControlOf(block).cacheControl).findLast((one) => one !== undefined);
  const texts = said.map((block) => block.textOr("text", ""));
  return { texts, ...(mark === undefined ? {} : { mark }) };
}

function toolsOf(body: Fields, ignore: (name: string) => void): readonly RequestTool[] {
  const given = body.objects("tools") ?? [];
  const own = given.filter((tool) => {
    const type = tool.textOr("type", "custom");
    if (type !== "custom") ignore(`tools.${type}`);
    return type === "custom";
  });
  if (own.length > TOOLS_MAX) throw body.wrong("tools", `has ${own.length} tools, at most ${TOOLS_MAX}`);
  for (const name of ["cache_control", "defer_loading"])
    if (own.some((tool) => tool.has(name))) ignore(`tools.${name}`);
  return distinct(
    body,
    own.map((tool) => functionTool(tool, "input_schema")),
  );
}

const MODES: ReadonlyMap<string, ToolChoiceMode> = new Map([
  ["auto", ToolChoiceMode.AUTO],
  ["any", ToolChoiceMode.REQUIRED],
  ["none", ToolChoiceMode.NONE],
]);

/** A choice among tools that were left out is left out as well. */
function choiceOf(
  body: Fields,
  tools: readonly RequestTool[],
  ignore: (name: string) => void,
): StepOptionsInit["toolChoice"] {
  const choice = body.object("tool_choice");
  if (choice === undefined) return undefined;
  const type = choice.needText("type");
  const mode = MODES.get(type);
  if (mode === undefined && type !== "tool") throw choice.wrong("type", "must be auto, any, tool or none");
  const name = choice.text("name");
  const isPossible =
    mode === undefined
      ? tools.some((tool) => tool.name === name)
      : mode !== ToolChoiceMode.REQUIRED || tools.length > 0;
  if (!isPossible) {
    ignore("tool_choice");
    return undefined;
  }
  return mode === undefined
    ? { choice: { case: "tool", value: name ?? "" } }
    : { choice: { case: "mode", value: mode } };
}

const STOPS_MAX = 256;

function optionsOf(body: Fields, toolChoice: StepOptionsInit["toolChoice"]): StepOptionsInit {
  const isSerial = body.object("tool_choice")?.flag("disable_parallel_tool_use");
  const stop = (body.list("stop_sequences") ?? []).filter((text) => typeof text === "string" && text !== "");
  if (stop.length > STOPS_MAX) throw body.wrong("stop_sequences", `has more than ${STOPS_MAX} texts`);
  return withoutAbsent({
    toolChoice,
    stop: stop.length === 0 ? undefined : stop.map(String),
    temperature: body.number("temperature", 0, 2),
    topP: body.number("top_p", 0, 1),
    topK: body.whole("top_k", 0, UINT32_MAX),
    maxOutputTokens: body.whole("max_tokens", 1, UINT32_MAX),
    parallelToolCalls: isSerial === undefined ? undefined : !isSerial,
    responseFormat: formatOf(body.object("output_config")?.object("format"), (format) => format, "answer"),
  });
}

interface Own {
  readonly systemMark: JsonObject | undefined;
  readonly endMark: JsonObject | undefined;
  readonly betas: readonly string[];
}

/** What Anthropic's models alone are given. */
function ownOptions(body: Fields, { systemMark, endMark, betas }: Own): { readonly anthropicJson?: string } {
  const thinking = body.raw("thinking");
  const userId = body.object("metadata")?.text("user_id");
  const effort = body.object("output_config")?.text("effort");
  const own = {
    ...(isJsonObject(thinking) ? { thinking } : {}),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(effort === undefined ? {} : { effort }),
    ...(betas.length === 0 ? {} : { betas }),
    ...(systemMark === undefined ? {} : { system_cache_control: systemMark }),
    ...(endMark === undefined ? {} : { end_cache_control: endMark }),
  };
  return Object.keys(own).length === 0 ? {} : { anthropicJson: JSON.stringify(own) };
}

/** By the names of `wish-words.ts`. */
function wordsOf(body: Fields, mark: JsonObject | undefined, betas: readonly string[]): readonly string[] {
  return [
    ...(body.has("stop_sequences") ? ["stop"] : []),
    ...(body.has("top_k") ? ["top_k"] : []),
    ...(body.object("tool_choice")?.has("disable_parallel_tool_use") === true ? ["parallel_tool_calls"] : []),
    ...(body.has("thinking") ? ["thinking"] : []),
    ...(body.object("metadata")?.has("user_id") === true ? ["metadata.user_id"] : []),
    ...(body.object("output_config")?.has("effort") === true ? ["output_config.effort"] : []),
    ...(betas.length === 0 ? [] : ["anthropic-beta"]),
    ...(mark === undefined ? [] : ["cache_control"]),
  ];
}
