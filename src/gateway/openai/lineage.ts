/**
 * The lineage: what a session has seen, as one hash, to tell a continuation from anything else.
 *
 * Clients never send back quite what they were given. What differs without meaning anything is levelled: white space at the
 * ends, text in one piece or in parts, `null` for empty, arguments written again, reasoning left out, tool call ids made
 * fit (a call is known by its place), tool results in another order. Everything else counts: one changed word is another
 * conversation, and gets a fresh stream.
 *
 * Invariant: equal chains mean that the model has seen what the client says it has.
 */
import { hash as digest } from "node:crypto";
import { canonicalText } from "./canonical-json.ts";
import type { RequestTool } from "./chat-tools.ts";
import { inCallOrder } from "./tool-windows.ts";
import type { LineFile, LineMessage, LinePart } from "./line.ts";

/** The chain of no messages. */
export const EMPTY_CHAIN = "0".repeat(64);

/**
 * What counts of a message, as one text. `position`: for a tool's result, the place of its call among the calls of its step; -1 when there
 * is no such call.
 */
export function levelled(message: LineMessage, position = 0): string {
  switch (message.role) {
    case "system":
      return JSON.stringify(["system", wordsOf(message.parts)]);
    case "user":
      return JSON.stringify(["user", wordsOf(message.parts), filesOf(message.parts)]);
    case "assistant": {
      const calls = message.toolCalls.map(({ name, args }) => [name, canonicalText(args)]);
      return JSON.stringify(["assistant", message.text.trim(), calls]);
    }
    case "tool":
      return JSON.stringify(["tool", position, message.text.trim(), filesOf(message.files)]);
  }
}

/** Developer messages are in it as well: the parser makes no difference. Those in the middle are links of the chain. */
export function systemHash(system: string): string {
  return hashOf(["system", system.trim()]);
}

/** Clients list the same tools in another order: their names decide. */
export function toolsHash(tools: readonly RequestTool[]): string {
  const described = tools
    .map(({ name, description, parametersJson, strict }) => ({
      name,
      rest: [description.trim(), canonicalText(parametersJson), strict],
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return hashOf(["tools", described.map(({ name, rest }) => [name, rest])]);
}

/** A link is as long as any other, so where it ends is no question. */
export function chain(previous: string, levelledText: string): string {
  return digest("sha256", previous + levelledText);
}

export interface Lineage {
  /** Up to and with the last assistant message: what a session must have seen. */
  readonly seen: string;
  /** Of all messages. */
  readonly whole: string;
}

/** In one pass: a history is long. Results count in the order of their calls, whatever order they came in. */
export function lineageOf(messages: readonly LineMessage[]): Lineage {
  let [seen, whole] = [EMPTY_CHAIN, EMPTY_CHAIN];
  for (const { message, position } of inCallOrder(messages)) {
    whole = chain(whole, levelled(message, position));
    if (message.role === "assistant") seen = whole;
  }
  return { seen, whole };
}

function wordsOf(parts: readonly LinePart[]): string {
  return parts
    .map((part) => (part.type === "text" ? part.text : ""))
    .join("")
    .trim();
}

/** A file is its bytes, whatever it is called. */
function filesOf(parts: readonly LinePart[]): readonly string[] {
  return parts.filter((part) => part.type === "file").map(fileHash);
}

function fileHash(file: LineFile): string {
  if ("url" in file) return `url ${file.url}`;
  return digest("sha256", file.bytes);
}

/** Lists of texts and numbers: the same value is the same text without any sorting. */
function hashOf(value: readonly unknown[]): string {
  return digest("sha256", JSON.stringify(value));
}
