/**
 * The messages of a request as lines: instructions that it begins with become part of the system prompt, all else the line.
 *
 * A user's message may hold results of tools, anywhere among its other blocks: each result is a line of its own, and what is left is what the user says.
 * Whether a content is a text or a list, where its cache marks stand and in which order a call's arguments are written makes no difference: clients change
 * all of it between two requests of one conversation.
 */
import type { JsonObject } from "../../protocol/chat-message.ts";
import {
  type AssistantLine,
  cacheControlOf,
  type Fields,
  givenMessages,
  type LineCall,
  type LineMessage,
  type LinePart,
  type LineText,
  type LineThought,
  textOfParts,
  type ToolLine,
} from "../openai/index.ts";
import { blocksOf, type ContentReader, partsOf } from "./message-content.ts";

interface MessageLines {
  /** Of the instructions before the first other message. */
  readonly system: readonly string[];
  readonly messages: readonly LineMessage[];
  /** The last mark for a provider's cache in what came behind the model's last words. */
  readonly endMark: JsonObject | undefined;
}

export function messageLines(body: Fields, reader: ContentReader): MessageLines {
  const given = givenMessages(body);
  if (given === undefined) throw body.wrong("messages", "must be a list of messages");
  const system: string[] = [];
  const messages: LineMessage[] = [];
  for (const message of given) {
    for (const line of linesOf(message, reader)) {
      if (line.role === "system" && messages.length === 0) system.push(textOfParts(line.parts));
      else messages.push(line);
    }
  }
  const news = given.slice(given.findLastIndex((message) => message.raw("role") === "assistant") + 1);
  return { system, messages, endMark: news.flatMap(marksOf).at(-1) };
}

function marksOf(message: Fields): readonly JsonObject[] {
  const blocks = blocksOf(message, "content");
  return typeof blocks === "string"
    ? []
    : blocks.map((block) => cacheControlOf(block).cacheControl).filter((mark) => mark !== undefined);
}

function linesOf(message: Fields, reader: ContentReader): readonly LineMessage[] {
  const role = message.needText("role");
  const blocks = blocksOf(message, "content");
  switch (role) {
    case "user":
      return userLines(blocks, reader);
    case "assistant":
      return assistantLines(message, blocks, reader);
    case "system": {
      const parts = textsOf(partsOf(blocks, reader), reader);
      return parts.length === 0 ? [] : [{ role, parts }];
    }
    default:
      throw message.wrong("role", "must be user, assistant or system");
  }
}

/** Instructions are text. */
function textsOf(parts: readonly LinePart[], { ignore }: ContentReader): readonly LineText[] {
  const texts = parts.filter((part) => part.type === "text");
  if (texts.length < parts.length) ignore("system.image");
  return texts;
}

/** Results first: they belong to the calls before, whatever else the user says. */
function userLines(blocks: readonly Fields[] | string, reader: ContentReader): readonly LineMessage[] {
  if (typeof blocks === "string") return [{ role: "user", parts: [{ type: "text", text: blocks }] }];
  const isResult = (block: Fields): boolean => block.raw("type") === "tool_result";
  const results = blocks.filter(isResult).map((block) => toolLine(block, reader));
  const parts = partsOf(
    blocks.filter((block) => !isResult(block)),
    reader,
  );
  return parts.length === 0 ? results : [...results, { role: "user", parts }];
}

function toolLine(block: Fields, reader: ContentReader): ToolLine {
  const parts = partsOf(blocksOf(block, "content"), reader);
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return {
    role: "tool",
    toolCallId: block.needText("tool_use_id"),
    text: texts.join("\n"),
    files: parts.filter((part) => part.type === "file"),
    ...(block.flag("is_error") === true ? { isError: true } : {}),
  };
}

const CALLS_MAX = 256;

function assistantLines(
  message: Fields,
  blocks: readonly Fields[] | string,
  reader: ContentReader,
): readonly AssistantLine[] {
  if (typeof blocks === "string")
    return blocks === "" ? [] : [{ role: "assistant", text: blocks, reasoning: "", toolCalls: [] }];
  const ofType = (type: string): readonly Fields[] => blocks.filter((block) => block.raw("type") === type);
  const rest = blocks.filter((block) => !OWN.has(block.textOr("type", "")));
  const parts = partsOf(rest, reader);
  if (parts.some(({ type }) => type === "file")) reader.ignore("assistant.image");
  const toolCalls = ofType("tool_use").map(callOf);
  if (toolCalls.length > CALLS_MAX) throw message.wrong("content", `has more than ${CALLS_MAX} calls`);
  if (new Set(toolCalls.map(({ id }) => id)).size < toolCalls.length)
    throw message.wrong("content", "has two calls with one id; results could not be told apart");
  const text = textOfParts(parts);
  const { reasoning, thoughts } = thoughtsOf(blocks, reader);
  const cacheControl = parts.findLast((part) => part.cacheControl !== undefined)?.cacheControl;
  if (text === "" && toolCalls.length === 0) return [];
  return [
    {
      role: "assistant",
      ...(cacheControl === undefined ? {} : { cacheControl }),
      text,
      reasoning,
      ...(thoughts.length === 0 ? {} : { thoughts }),
      toolCalls,
    },
  ];
}

/** A signature of ours stands for its thought, whatever the client has made of the words. */
function thoughtsOf(
  blocks: readonly Fields[],
  reader: ContentReader,
): { readonly reasoning: string; readonly thoughts: readonly LineThought[] } {
  const unsigned: string[] = [];
  const thoughts: LineThought[] = [];
  let at = 0;
  for (const block of blocks) {
    const type = block.raw("type");
    if (type === "text") at += textOfParts(partsOf([block], reader)).length;
    if (type !== "thinking" && type !== "redacted_thinking") continue;
    const token = block.textOr(type === "thinking" ? "signature" : "data", "");
    if (token === "") unsigned.push(block.textOr("thinking", ""));
    else thoughts.push({ token, at });
  }
  return { reasoning: unsigned.filter((text) => text !== "").join("\n\n"), thoughts };
}

const OWN: ReadonlySet<string> = new Set(["tool_use", "thinking", "redacted_thinking"]);

function callOf(block: Fields): LineCall {
  const input = block.raw("input") ?? {};
  return { id: block.needText("id"), name: block.needText("name"), args: JSON.stringify(input) };
}
