/**
 * Providers on loopback that answer by a script: one in OpenAI's wire format, one in Anthropic's.
 *
 * A script looks at what the provider was told and says what the model says, as a model does; so it does not matter how often
 * it is asked, and how often is counted.
 */
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Cleanup } from "../cleanup.ts";
import {
  type Act,
  type Asked,
  events,
  type Fields,
  fieldsOf,
  listOf,
  ProviderServer,
  refuses,
} from "../agent/models/provider-server.ts";

export const MODEL = "quill";

export interface ScriptedCall {
  readonly name: string;
  readonly args: Fields;
}

export interface Said {
  readonly thinking?: string;
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
}

/** What a model says to these messages, in the provider's own format; an act for what is no answer. */
export type Script = (messages: readonly Fields[], asked: Asked) => Said | Act;

export interface ScriptedProvider {
  readonly baseURL: string;
  /** Every call of the model, in order. */
  readonly calls: readonly Asked[];
}

export function openaiProvider(t: Cleanup, script: Script): Promise<ScriptedProvider> {
  return provider(t, "/chat/completions", script, openaiEvents);
}

/** What it gives each answer as the signature of its reasoning. */
export const SIGNATURE = "c2lnbmF0dXJlIG9mIHRoZSBwcm92aWRlcg==";

/** Refuses to go on when a tool call of its own comes back without the signed reasoning that led to it. */
export function anthropicProvider(t: Cleanup, script: Script): Promise<ScriptedProvider> {
  const strict: Script = (messages, asked) =>
    messages.every(isSigned) ? script(messages, asked) : refuses(400, UNSIGNED);
  return provider(t, "/messages", strict, anthropicEvents);
}

const UNSIGNED = {
  type: "error",
  error: { type: "invalid_request_error", message: "a tool_use block must follow its thinking block" },
};

function isSigned(message: Fields): boolean {
  const parts = listOf(message["content"]);
  if (!parts.some(({ type }) => type === "tool_use")) return true;
  return parts[0]?.["type"] === "thinking" && parts[0]["signature"] === SIGNATURE;
}

async function provider(
  t: Cleanup,
  path: string,
  script: Script,
  inItsFormat: (said: Said, body: Fields) => readonly unknown[],
): Promise<ScriptedProvider> {
  const isCall = (asked: Asked): boolean => asked.path.endsWith(path);
  const act: Act = (response, asked) => {
    if (!isCall(asked)) return listModels(response);
    const said = script(listOf(asked.body["messages"]), asked);
    const answer = typeof said === "function" ? said : events(...inItsFormat(said, asked.body));
    return answer(response, asked);
  };
  const server = await ProviderServer.start(t, act);
  return {
    baseURL: `${server.origin}/v1`,
    get calls() {
      return server.asked.filter(isCall);
    },
  };
}

function listModels(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ object: "list", data: [{ id: MODEL, object: "model" }] }));
}

/** Tokens, near enough: what counts is that they arrive. */
const USAGE = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 };
const DETAILS = {
  prompt_tokens_details: { cached_tokens: 32 },
  completion_tokens_details: { reasoning_tokens: 2 },
};

export function chunkOf(delta: object, finish: string | null = null): object {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  return { id: "c", object: "chat.completion.chunk", created: 1, model: MODEL, choices };
}

/** An answer in OpenAI's wire format: the role, then a piece for every word. */
export function openaiEvents({ thinking, text, calls = [] }: Said): readonly unknown[] {
  return [
    chunkOf({ role: "assistant", content: "" }),
    ...pieces(thinking).map((piece) => chunkOf({ reasoning_content: piece })),
    ...pieces(text).map((piece) => chunkOf({ content: piece })),
    ...calls.map(({ name, args }, index) =>
      chunkOf({ tool_calls: [{ index, id: callId(), type: "function", function: functionOf(name, args) }] }),
    ),
    chunkOf({}, calls.length > 0 ? "tool_calls" : "stop"),
    { ...chunkOf({}), choices: [], usage: { ...USAGE, ...DETAILS } },
    "[DONE]",
  ];
}

function functionOf(name: string, args: Fields): object {
  return { name, arguments: JSON.stringify(args) };
}

function callId(): string {
  return `call_${randomUUID().replaceAll("-", "")}`;
}

function pieces(text: string | undefined): readonly string[] {
  return text?.match(/\S+\s*/g) ?? [];
}

function anthropicEvents({ thinking, text, calls = [] }: Said): readonly unknown[] {
  const message = { id: "m", type: "message", role: "assistant", model: MODEL, content: [] };
  const usage = { input_tokens: 9, output_tokens: 1 };
  const blocks: (readonly [object, ...object[]])[] = [];
  if (thinking !== undefined) {
    blocks.push([
      { type: "thinking", thinking: "", signature: "" },
      { type: "thinking_delta", thinking },
      { type: "signature_delta", signature: SIGNATURE },
    ]);
  }
  if (text !== undefined)
    blocks.push([
      { type: "text", text: "" },
      { type: "text_delta", text },
    ]);
  for (const { name, args } of calls) {
    blocks.push([
      { type: "tool_use", id: `toolu_${randomUUID().slice(0, 8)}`, name, input: {} },
      { type: "input_json_delta", partial_json: JSON.stringify(args) },
    ]);
  }
  const stop_reason = calls.length > 0 ? "tool_use" : "end_turn";
  return [
    { type: "message_start", message: { ...message, stop_reason: null, usage } },
    ...blocks.flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ];
}

function blockEvents(
  [content_block, ...deltas]: readonly [object, ...object[]],
  index: number,
): readonly object[] {
  const told = deltas.map((delta) => ({ type: "content_block_delta", index, delta }));
  return [
    { type: "content_block_start", index, content_block },
    ...told,
    { type: "content_block_stop", index },
  ];
}

/** What a message says, whether its content is a text or a list of parts. */
export function textOf(message: Fields | undefined): string {
  const content = message?.["content"];
  if (typeof content === "string") return content;
  return listOf(content)
    .map((part) => (typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}

/** A request's messages as text, without the mark that moves. */
export function promptOf({ body }: Asked): string {
  return JSON.stringify(body["messages"], (name, value: unknown) =>
    name === "cache_control" ? undefined : value,
  );
}

/** Names of the tools that a request offers, in its order. */
export function toolsOf({ body }: Asked): readonly unknown[] {
  return listOf(body["tools"]).map((tool) => tool["name"] ?? fieldsOf(tool["function"])["name"]);
}

/** By what the user said last: what the model says, step by step. */
export function bySteps(plan: Readonly<Record<string, readonly (Said | Act)[]>>): Script {
  return (messages) => {
    const asking = messages.findLastIndex((message) => message["role"] === "user" && textOf(message) !== "");
    const steps = messages.slice(asking + 1).filter(({ role }) => role === "assistant").length;
    return plan[textOf(messages[asking])]?.[steps] ?? { text: "I have no script for that." };
  };
}
