/**
 * The body of `POST /v1/responses`, read and checked as a whole before anything happens.
 *
 * What came before (`previous_response_id`, `item_reference`) is put in its place first: from there on the request is the same as one that
 * has its whole history with it. Tools of other kinds than functions, and items of kinds that no model here is given, are left out and named in
 * `x-holdfast-ignored`: clients send them to every server. What would change the answer in another way and cannot be done is refused.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import {
  type AnswerRequest,
  type ContentRules,
  distinct,
  Fields,
  formatOf,
  functionTool,
  GatewayError,
  MESSAGES_MAX,
  MODES,
  type RequestTool,
  type StepOptionsInit,
  TOOLS_MAX,
  UINT32_MAX,
  withoutAbsent,
} from "../openai/index.ts";
import { ToolChoiceMode } from "../../protocol/messages.ts";
import { noConversation } from "../refusals.ts";
import { responseOfItem } from "./ids.ts";
import { isSaid, itemLines, together } from "./response-items.ts";

export interface ResponseRequest {
  readonly request: AnswerRequest;
  /** What every form of the response repeats of the request. */
  readonly asked: JsonObject;
  readonly isKept: boolean;
  readonly isBackground: boolean;
  /** Whether thoughts are shown with their tokens. */
  readonly isSealedShown: boolean;
  /** The response whose items come before `input`. */
  readonly previous: string | undefined;
  /** The conversation that it is of. */
  readonly conversation: Named | undefined;
  /** The items of the request itself. */
  readonly input: readonly JsonObject[];
  /** Those behind the model's last words. */
  readonly news: readonly JsonObject[];
}

/** What responses before this one said; undefined for one that is not there. */
export interface KeptItems {
  /** All items up to the end of the response. */
  readonly through: (responseId: string) => Promise<readonly JsonObject[] | undefined>;
  readonly outputOf: (responseId: string) => Promise<readonly JsonObject[] | undefined>;
  readonly conversation: (
    id: string,
  ) => Promise<(Named & { readonly items: readonly JsonObject[] }) | undefined>;
}

/** A conversation, as far as it has come. */
interface Named {
  readonly id: string;
  readonly entryCount: number;
  readonly isBusy: boolean;
}

/** Rejects with a GatewayError that names the field. */
export async function parseResponseRequest(
  value: unknown,
  rules: ContentRules,
  kept: KeptItems,
): Promise<ResponseRequest> {
  const body = new Fields(value, "");
  const model = body.needText("model");
  for (const [name, instead] of REFUSED) if (body.has(name)) throw body.unsupported(name, instead);
  const input = together(await withoutReferences(body, kept));
  const previous = body.text("previous_response_id");
  const conversation = await conversationOf(body, kept);
  const before = previous === undefined ? conversation?.items : await kept.through(previous);
  if (previous !== undefined && before === undefined) throw noPrevious(previous);
  const items = [...(before ?? []), ...input];
  if (items.length > MESSAGES_MAX)
    throw body.wrong("input", `has ${items.length} items, at most ${MESSAGES_MAX} are taken`);
  const fields = fieldsOf(items);
  const lines = itemLines(fields, rules);
  const tools = toolsOf(body);
  const stream = body.flag("stream") ?? false;
  const system = [body.textOr("instructions", ""), ...lines.system]
    .filter((text) => text !== "")
    .join("\n\n");
  const { toolChoice, isIgnored } = choiceOf(body, tools);
  const ignored = [
    ...body.names.filter((name) => body.has(name) && !READ.has(name) && !WORDS.has(name)),
    ...(isIgnored ? ["tool_choice"] : []),
    ...(body.list("include") ?? []).flatMap((name) =>
      typeof name === "string" && name !== SEALED ? [`include.${name}`] : [],
    ),
    ...new Set(
      (body.objects("tools") ?? [])
        .map(kindOf)
        .filter((kind) => kind !== "function")
        .map((kind) => `tools.${kind}`),
    ),
    ...lines.ignored,
  ];
  return {
    request: {
      model,
      fallbacks: [],
      stream,
      includeUsage: true,
      system,
      messages: lines.messages,
      tools,
      options: { ...optionsOf(body, toolChoice), ...(stream ? { shownIsFinal: true } : {}) },
      wishes: { words: wordsOf(body, fields), ignored },
    },
    asked: {
      ...askedOf(body),
      ...(conversation === undefined ? {} : { conversation: { id: conversation.id } }),
    },
    isKept: conversation !== undefined || (body.flag("store") ?? true),
    isBackground: body.flag("background") ?? false,
    isSealedShown: showsSealed(body.list("include")),
    previous,
    conversation,
    input,
    news: conversation !== undefined ? input : input.slice(fieldsOf(input).findLastIndex(isSaid) + 1),
  };
}

/** By its id, or as an object that has one. */
async function conversationOf(body: Fields, kept: KeptItems): ReturnType<KeptItems["conversation"]> {
  const given = body.raw("conversation");
  if (given === undefined) return undefined;
  if (body.has("previous_response_id"))
    throw body.wrong(
      "conversation",
      "and previous_response_id are two ways to say what came before: send one",
    );
  const id = typeof given === "string" ? given : body.needObject("conversation").needText("id");
  const found = await kept.conversation(id);
  if (found === undefined) throw noConversation(id);
  return found;
}

/** What a list of `include` says of thoughts. */
export function showsSealed(include: readonly unknown[] = []): boolean {
  return include.includes(SEALED);
}

const SEALED = "reasoning.encrypted_content";

const REFUSED = [["prompt", "there are no stored prompts here; send instructions and input"]] as const;

/** Read here, or repeated in the response. */
const READ: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "stream",
  "stream_options",
  "tools",
  "tool_choice",
  "temperature",
  "top_p",
  "max_output_tokens",
  "reasoning",
  "text",
  "metadata",
  "store",
  "background",
  "previous_response_id",
  "conversation",
  "include",
]);

/** What a provider may have no word for. */
const WORDS: ReadonlySet<string> = new Set(["parallel_tool_calls", "prompt_cache_key"]);

function fieldsOf(items: readonly JsonObject[]): readonly Fields[] {
  return items.map((item, at) => new Fields(item, `input[${at}]`));
}

/** The request's own items, each reference replaced by what it names. */
async function withoutReferences(body: Fields, kept: KeptItems): Promise<readonly JsonObject[]> {
  const given = body.raw("input");
  if (typeof given === "string") return [{ type: "message", role: "user", content: given }];
  const items: JsonObject[] = [];
  const outputs = new Map<string, Promise<readonly JsonObject[] | undefined>>();
  for (const item of body.list("input") ?? []) {
    if (!isJsonObject(item)) throw body.wrong("input", "must be a text or a list of items");
    const id = item["id"];
    const isReference =
      item["type"] === "item_reference" || (item["type"] === undefined && item["role"] === undefined);
    // A client that did not ask for it sends a thought back without what belongs to it: the response has it.
    const isUnsigned = item["type"] === "reasoning" && typeof item["encrypted_content"] !== "string";
    if (!(isReference || isUnsigned) || typeof id !== "string") {
      items.push(item);
      continue;
    }
    const responseId = responseOfItem(id) ?? "";
    const output = outputs.get(responseId) ?? kept.outputOf(responseId);
    outputs.set(responseId, output);
    const named = (await output)?.find((one) => one["id"] === id);
    if (named === undefined && isReference) throw noItem(id);
    items.push(named ?? item);
  }
  return items;
}

function kindOf(tool: Fields): string {
  return tool.textOr("type", "function");
}

function toolsOf(body: Fields): readonly RequestTool[] {
  const given = (body.objects("tools") ?? []).filter((tool) => kindOf(tool) === "function");
  if (given.length > TOOLS_MAX) throw body.wrong("tools", `has ${given.length} tools, at most ${TOOLS_MAX}`);
  return distinct(
    body,
    given.map((tool) => functionTool(tool)),
  );
}

/** A choice among tools that were left out is left out as well. */
function choiceOf(
  body: Fields,
  tools: readonly RequestTool[],
): { readonly toolChoice?: StepOptionsInit["toolChoice"]; readonly isIgnored: boolean } {
  const given = body.raw("tool_choice");
  if (given === undefined) return { isIgnored: false };
  if (typeof given === "string") {
    const mode = MODES.get(given);
    if (mode === undefined) throw body.wrong("tool_choice", "must be auto, none, required or a function");
    if (mode === ToolChoiceMode.REQUIRED && tools.length === 0) return { isIgnored: true };
    return { toolChoice: { choice: { case: "mode", value: mode } }, isIgnored: false };
  }
  const named = body.needObject("tool_choice");
  const name = named.text("name");
  if (named.text("type") !== "function" || !tools.some((tool) => tool.name === name))
    return { isIgnored: true };
  return { toolChoice: { choice: { case: "tool", value: name ?? "" } }, isIgnored: false };
}

function optionsOf(body: Fields, toolChoice: StepOptionsInit["toolChoice"]): StepOptionsInit {
  const text = body.object("text");
  return withoutAbsent({
    toolChoice,
    responseFormat: formatOf(text?.object("format"), (format) => format),
    temperature: body.number("temperature", 0, 2),
    topP: body.number("top_p", 0, 1),
    maxOutputTokens: body.whole("max_output_tokens", 1, UINT32_MAX),
    limitsCompletion: body.has("max_output_tokens") ? true : undefined,
    reasoningEffort: body.object("reasoning")?.text("effort"),
    parallelToolCalls: body.flag("parallel_tool_calls"),
    verbosity: text?.text("verbosity"),
    promptCacheKey: body.text("prompt_cache_key"),
  });
}

function wordsOf(body: Fields, items: readonly Fields[]): readonly string[] {
  const listed = items.filter((item) => Array.isArray(item.raw("content")));
  const parts = listed.flatMap((item) => item.objects("content") ?? []);
  return [
    ...body.names.filter((name) => body.has(name) && WORDS.has(name)),
    ...(body.object("text")?.has("verbosity") === true ? ["verbosity"] : []),
    ...(parts.some((part) => part.has("detail")) ? ["detail"] : []),
  ];
}

/** Null where OpenAI has null; what the request does not say is what it would have got. */
function askedOf(body: Fields): JsonObject {
  const or = (name: string, otherwise: JsonObject[string]): JsonObject => ({
    [name]: body.raw(name) ?? otherwise,
  });
  return {
    ...or("background", false),
    ...or("instructions", null),
    ...or("max_output_tokens", null),
    ...or("metadata", {}),
    ...or("parallel_tool_calls", true),
    ...or("previous_response_id", null),
    ...or("prompt_cache_key", null),
    ...or("reasoning", { effort: null, summary: null }),
    ...or("store", true),
    ...or("temperature", null),
    ...or("text", { format: { type: "text" } }),
    ...or("tool_choice", "auto"),
    ...or("tools", []),
    ...or("top_p", null),
    truncation: "disabled",
  };
}

function noPrevious(id: string): GatewayError {
  return new GatewayError({
    status: 400,
    type: "invalid_request_error",
    code: "previous_response_not_found",
    param: "previous_response_id",
    message: `Previous response with id ${JSON.stringify(id)} not found. Send the whole history instead.`,
  });
}

function noItem(id: string): GatewayError {
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "item_not_found",
    param: "input",
    message: `Item with id ${JSON.stringify(id)} not found. Send the item itself, or set store to false.`,
  });
}
