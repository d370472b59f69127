/**
 * The items of a request as messages: instructions that they begin with become part of the system prompt, all else the line.
 *
 * What a model says is one message of the line and several items here: thoughts, text and calls in a row belong together. Their texts are joined as an
 * answer's steps are, so an answer that a client returns in several items has the lineage that it left with.
 */
import type { JsonObject } from "../../protocol/chat-message.ts";
import {
  type AssistantLine,
  type ContentRules,
  type Fields,
  fileOf,
  imagePart,
  invalidRequest,
  type LineCall,
  type LineFile,
  type LineMessage,
  type LinePart,
  type LineThought,
  textOfParts,
} from "../openai/index.ts";
import { responseOfItem } from "./ids.ts";

interface ItemLines {
  /** Of the instructions before the first other item; empty = none. */
  readonly system: readonly string[];
  readonly messages: readonly LineMessage[];
  /** The kinds of items that no model is given. */
  readonly ignored: readonly string[];
}

/** Items of a model's own words; a request's news is behind the last of them. */
export function isSaid(item: Fields): boolean {
  const type = typeOf(item);
  return SAID.has(type) || (type === "message" && item.raw("role") === "assistant");
}

const SAID: ReadonlySet<string> = new Set(["reasoning", "function_call"]);

/** Some clients put each result behind its call: calls of one response, which their ids tell, stand together again, and the results behind them. */
export function together(items: readonly JsonObject[]): readonly JsonObject[] {
  const ordered: JsonObject[] = [];
  for (const item of items) {
    const response = responseOf(item);
    const behind = ordered.findLastIndex(({ type }) => type !== "function_call_output");
    const isSplit = response !== undefined && responseOf(ordered[behind] ?? {}) === response;
    ordered.splice(isSplit ? behind + 1 : ordered.length, 0, item);
  }
  return ordered;
}

function responseOf({ id }: JsonObject): string | undefined {
  return typeof id === "string" ? responseOfItem(id) : undefined;
}

export function itemLines(items: readonly Fields[], rules: ContentRules): ItemLines {
  const system: string[] = [];
  const messages: LineMessage[] = [];
  const ignored = new Set<string>();
  let said: Said | undefined;
  for (const item of items) {
    const type = typeOf(item);
    if (isSaid(item)) {
      said ??= { texts: "", reasoning: "", thoughts: [], calls: [] };
      saying(said, type, item, rules);
      continue;
    }
    if (type !== "message" && type !== "function_call_output") {
      ignored.add(`input.${type}`);
      continue;
    }
    if (said !== undefined) messages.push(assistantLine(said, item));
    said = undefined;
    const line = type === "message" ? messageLine(item, rules) : outputLine(item, rules);
    if (line.role === "system" && messages.length === 0) system.push(textOfParts(line.parts));
    else messages.push(line);
  }
  if (said !== undefined) messages.push(assistantLine(said, items.at(-1)));
  return { system, messages, ignored: [...ignored] };
}

/** Items without a type are messages. */
function typeOf(item: Fields): string {
  return item.textOr("type", "message");
}

interface Said {
  texts: string;
  reasoning: string;
  readonly thoughts: LineThought[];
  readonly calls: LineCall[];
}

function saying(said: Said, type: string, item: Fields, rules: ContentRules): void {
  const token = type === "reasoning" ? item.text("encrypted_content") : undefined;
  if (token !== undefined) {
    said.thoughts.push({ token, at: said.texts.length });
  } else if (type === "reasoning") {
    const parts = [...(item.objects("summary") ?? []), ...(item.objects("content") ?? [])];
    for (const part of parts) said.reasoning = joined(said.reasoning, part.textOr("text", ""));
  } else if (type === "message") {
    said.texts = joined(said.texts, textOfParts(partsOf(item, "content", rules)));
  } else {
    const id = item.needText("call_id");
    said.calls.push({ id, name: item.needText("name"), args: item.textOr("arguments", "") });
  }
}

/** As `src/turn/answer.ts` joins the steps of an answer. */
function joined(before: string, text: string): string {
  const needsGap = before !== "" && text !== "" && !before.endsWith("\n") && !text.startsWith("\n");
  return needsGap ? `${before}\n\n${text}` : before + text;
}

const CALLS_MAX = 256;

function assistantLine({ texts, reasoning, thoughts, calls }: Said, at: Fields | undefined): AssistantLine {
  const path = at?.path ?? "input";
  if (calls.length > CALLS_MAX) throw invalidRequest(path, `${path}: more than ${CALLS_MAX} calls in a row`);
  if (new Set(calls.map(({ id }) => id)).size < calls.length) {
    throw invalidRequest(
      path,
      `${path}: two calls before it have one call_id; results could not be told apart`,
    );
  }
  const signed = thoughts.length === 0 ? {} : { thoughts };
  return { role: "assistant", text: texts, reasoning, ...signed, toolCalls: calls };
}

function messageLine(item: Fields, rules: ContentRules): LineMessage {
  const role = item.needText("role");
  const parts = partsOf(item, "content", rules);
  switch (role) {
    case "user":
      return { role, parts };
    case "system":
    case "developer": {
      const texts = parts.filter((part) => part.type === "text");
      if (texts.length < parts.length)
        throw item.unsupported("content", "instructions are text; send images in a user message");
      return { role: "system", parts: texts };
    }
    default:
      throw item.wrong("role", "must be user, assistant, system or developer");
  }
}

function outputLine(item: Fields, rules: ContentRules): LineMessage {
  const parts = partsOf(item, "output", rules);
  return {
    role: "tool",
    toolCallId: item.needText("call_id"),
    text: textOfParts(parts),
    files: parts.filter((part) => part.type === "file"),
  };
}

function partsOf(item: Fields, name: "content" | "output", rules: ContentRules): readonly LinePart[] {
  const given = item.raw(name);
  if (given === undefined) return [];
  if (typeof given === "string") return [{ type: "text", text: given }];
  return (item.objects(name) ?? []).flatMap((part) => contentPart(part, rules));
}

function contentPart(part: Fields, rules: ContentRules): readonly LinePart[] {
  const type = part.needText("type");
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      return [{ type: "text", text: part.textOr("text", "") }];
    case "input_image":
      return [{ ...imageOf(part, rules), ...detailOf(part) }];
    case "input_file":
      return [fileOf(part)];
    // What a model said when it refused is not part of the conversation.
    case "refusal":
      return [];
    default:
      throw part.unsupported(
        "type",
        `parts of type ${JSON.stringify(type)} are not supported; send input_text, input_image or input_file`,
      );
  }
}

function imageOf(part: Fields, rules: ContentRules): LineFile {
  if (part.has("image_url")) return imagePart(part, rules);
  throw part.unsupported("file_id", "there are no uploaded files here; send image_url as a data: URL");
}

function detailOf(part: Fields): { readonly detail?: string } {
  const detail = part.text("detail");
  return detail === undefined ? {} : { detail };
}
