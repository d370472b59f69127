/**
 * The messages of a simulated OpenAI client: as it means them, and as it writes them.
 *
 * Clients write the same conversation in many ways (`null` for an empty text, parts for a string, arguments with their keys in another
 * order); what they mean is the same, and the gateway must see that it is. `canonical` is what counts.
 */
import type { ChatMessage } from "../../../src/protocol/chat-message.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import type { Door } from "../../../src/gateway/openai/index.ts";
import type { Random } from "../world/index.ts";
import { writtenBy } from "./other-doors.ts";

export interface SimCall {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

export type SimMessage =
  | { readonly role: "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly calls: readonly SimCall[] }
  | { readonly role: "tool"; readonly id: string; readonly text: string };

type Json = Readonly<Record<string, unknown>>;

/** What counts of each message, in order; results stand in the order of their calls. */
export function canonical(messages: readonly SimMessage[]): readonly string[] {
  let calls: readonly string[] = [];
  const lines: { readonly at: number; readonly place: number; readonly text: string }[] = [];
  let at = 0;
  for (const message of messages) {
    if (message.role === "tool") {
      const place = calls.indexOf(message.id);
      lines.push({ at, place, text: JSON.stringify(["tool", message.text.trim()]) });
      continue;
    }
    at++;
    if (message.role === "assistant") calls = message.calls.map(({ id }) => id);
    const of =
      message.role === "user"
        ? ["user", message.text.trim()]
        : ["assistant", message.text.trim(), message.calls.map(({ name, args }) => [name, sorted(args)])];
    lines.push({ at, place: -1, text: JSON.stringify(of) });
    if (message.role === "assistant") at++;
  }
  return lines.toSorted((a, b) => a.at - b.at || a.place - b.place).map(({ text }) => text);
}

/** The same of a prompt. */
export function canonicalPrompt(messages: readonly ChatMessage[]): readonly string[] {
  return messages.flatMap((message) => {
    switch (message.role) {
      case "system":
      case "user":
        return [JSON.stringify([message.role, textOf(message.content)])];
      case "assistant": {
        const calls = message.content.flatMap((part) =>
          part.type === "tool-call" ? [[part.tool, sorted(part.args)]] : [],
        );
        return [JSON.stringify(["assistant", textOf(message.content), calls])];
      }
      case "tool":
        return message.content.map(({ text }) => JSON.stringify(["tool", text.trim()]));
    }
  });
}

function textOf(parts: readonly { readonly type: string; readonly text?: string }[]): string {
  return parts
    .map((part) => (part.type === "text" ? (part.text ?? "") : ""))
    .join("")
    .trim();
}

export interface SimContext {
  /** Which one its requests come by. */
  readonly door: Door;
  readonly system: string;
  readonly tools: readonly string[];
}

export interface SimBody extends SimContext {
  readonly model: string;
  readonly messages: readonly SimMessage[];
  /** The number of the request among all of the world: every word that it adds carries it (`m7`). */
  readonly marker: number;
  readonly stream: boolean;
  /** Its options alone are more than a chunk may have: it is refused, and changes nothing. */
  readonly isHuge: boolean;
}

/** The JSON body, written in one of the ways that clients have. */
export function written(body: SimBody, random: Random): Json {
  return body.door === "chat" ? writtenChat(body, random) : writtenBy(body.door, body);
}

function writtenChat(body: SimBody, random: Random): Json {
  const { system, tools, model, messages, marker, stream, isHuge } = body;
  const head = system === "" ? [] : [{ role: random.pick(["system", "developer"]), content: system }];
  return {
    model,
    messages: [...head, ...messages.map((message) => writtenMessage(message, random))],
    max_tokens: marker,
    ...(stream ? { stream: true } : {}),
    ...(isHuge ? { response_format: hugeFormat() } : {}),
    ...(tools.length === 0 ? {} : { tools: tools.map(writtenTool) }),
  };
}

function hugeFormat(): Json {
  const schema = { type: "object", description: "x".repeat(LIMITS.chunkBytesMax) };
  return { type: "json_schema", json_schema: { name: "huge", schema } };
}

function writtenMessage(message: SimMessage, random: Random): Json {
  switch (message.role) {
    case "user":
      return { role: "user", content: writtenText(message.text, random) };
    case "tool":
      return { role: "tool", tool_call_id: message.id, content: writtenText(message.text, random) };
    case "assistant": {
      const { text, calls } = message;
      const content = text === "" ? random.pick([null, ""]) : writtenText(text, random);
      const tool_calls = calls.map(({ id, name, args }) => {
        const written = random.chance(0.3) ? reordered(args) : args;
        return { id, type: "function", function: { name, arguments: written } };
      });
      const thought = random.chance(0.2) ? { reasoning_content: "as it was thought" } : {};
      return { role: "assistant", content, ...thought, ...(calls.length === 0 ? {} : { tool_calls }) };
    }
  }
}

function writtenText(text: string, random: Random): unknown {
  if (random.chance(0.7)) return text;
  if (random.chance(0.5)) return `${text} `;
  const half = text.length >> 1;
  return [
    { type: "text", text: text.slice(0, half) },
    { type: "text", text: text.slice(half) },
  ];
}

/** Arguments as clients may write them again: the order of their keys does not count. */
function sorted(args: string): string {
  const value: unknown = JSON.parse(args);
  if (typeof value !== "object" || value === null) return args;
  return JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** The same arguments with their keys in another order, and white space. */
function reordered(args: string): string {
  const value: unknown = JSON.parse(args);
  if (typeof value !== "object" || value === null) return args;
  return JSON.stringify(Object.fromEntries(Object.entries(value).toReversed()), undefined, 1);
}

function writtenTool(name: string): Json {
  const parameters = { type: "object", properties: { of: { type: "string" } } };
  return { type: "function", function: { name, description: `does ${name}`, parameters } };
}

/** The newest request that a prompt has words of. */
export function markerOf(messages: readonly ChatMessage[]): number {
  const numbers = JSON.stringify(messages).matchAll(/\bm(\d+)\b/g);
  return Math.max(0, ...[...numbers].map(([, number]) => Number(number)));
}

/** Whether providers would take it as it is: each call has its one result, and each result its call. */
export function isWellFormed(messages: readonly SimMessage[]): boolean {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (!open.includes(message.id)) return false;
      open = open.filter((id) => id !== message.id);
      continue;
    }
    if (open.length > 0) return false;
    if (message.role === "assistant") open = message.calls.map(({ id }) => id);
  }
  return open.length === 0;
}
