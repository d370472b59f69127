/**
 * Providers on loopback that answer by a script, in each wire format and with what each kind of them can do.
 *
 * A script looks at what the provider was told and says what the model says, as a model does; so it does not matter how often
 * it is asked, and how often is counted. Without a script a provider that continues a text says the same each time, and every other one
 * says something else each time: a restart under shown text cannot pass by luck.
 */
import type { ServerResponse } from "node:http";
import type { Cleanup } from "../../../cleanup.ts";
import { type BackgroundOptions, BackgroundRuns } from "./background.ts";
import { type Break, saying } from "./breaking.ts";
import {
  ANTHROPIC,
  CHAT,
  type Format,
  GOOGLE,
  MODEL,
  RESPONSES,
  type Said,
  SEALED_THOUGHT,
  SIGNATURE,
} from "./formats.ts";
import { type Act, type Asked, type Fields, fieldsOf, listOf, ProviderServer, refuses } from "./server.ts";

/** What a model says to these messages, in the provider's own format; an act for what is no answer. */
export type Script = (messages: readonly Fields[], asked: Asked) => Said | Act;

/** What becomes of a trailing message of the assistant: its text is continued, ignored, or the request is refused. */
type Prefill = "continued" | "anew" | "refused";

export interface Flavour {
  readonly name: string;
  readonly format: Format;
  readonly prefill: (body: Fields, last: Fields) => Prefill;
  /** It says the same each time, and so can be seen to continue. */
  readonly isSteady?: boolean;
  /** Its runs live on without a connection. */
  readonly hasBackground?: boolean;
}

const refused = (): Prefill => "refused";
const anew = (): Prefill => "anew";

export const FLAVOURS = {
  chat: { name: "OpenAI chat", format: CHAT, prefill: refused },
  responses: { name: "OpenAI responses", format: RESPONSES, prefill: anew, hasBackground: true },
  claude: { name: "Anthropic", format: ANTHROPIC, prefill: refused },
  /** Claude up to 4.5: without thinking, and not behind white space. */
  olderClaude: {
    name: "Anthropic that prefills",
    format: ANTHROPIC,
    isSteady: true,
    prefill: (body, last) =>
      body["thinking"] !== undefined || /\s$/.test(textOf(last)) ? "refused" : "continued",
  },
  google: { name: "Google", format: GOOGLE, prefill: refused },
  vllm: {
    name: "vLLM",
    format: CHAT,
    isSteady: true,
    prefill: ({ continue_final_message, add_generation_prompt }) =>
      continue_final_message === true && add_generation_prompt === false ? "continued" : "anew",
  },
  /** Does not know the word, and so writes another answer behind the text. */
  olderVllm: { name: "vLLM without continue_final_message", format: CHAT, prefill: anew },
  /** DeepSeek and Mistral. */
  prefixed: {
    name: "Mistral",
    format: CHAT,
    isSteady: true,
    prefill: (_, { prefix }) => (prefix === true ? "continued" : "refused"),
  },
  ollama: { name: "Ollama", format: CHAT, prefill: anew },
} as const satisfies Readonly<Record<string, Flavour>>;

export interface ScriptedOptions extends BackgroundOptions {
  readonly script?: Script;
  /** How the answers break, one by one; later ones do not. */
  readonly breaks?: readonly (Break | undefined)[];
}

export interface ScriptedProvider {
  readonly baseURL: string;
  /** For `providers` of the configuration. */
  readonly config: { readonly type: Format["type"]; readonly baseURL: string };
  /** Every call of the model, in order. */
  readonly calls: readonly Asked[];
  /** Every request, also those about runs and models. */
  readonly requests: readonly Asked[];
  readonly runs: BackgroundRuns;
}

/** The text that is always the same: characters of several bytes in it, and white space of several kinds. */
export const STEADY_TEXT =
  "The wind is north by east — über dem Meer 🌊 — and it turns\n\nbefore the night, as 風 does in spring.";

/** The text of the call of that number, from 1: another one from its first word on. */
export function varyingText(call: number): string {
  const first = ["Calm", "Gale", "Breeze", "Storm", "Squall", "Drift"][(call - 1) % 6] ?? "";
  return `${first} number ${call} — ${STEADY_TEXT}`;
}

export async function scriptedProvider(
  t: Cleanup,
  { format, prefill, isSteady = false, hasBackground = false }: Flavour,
  options: ScriptedOptions = {},
): Promise<ScriptedProvider> {
  const { script } = options;
  const breaks = [...(options.breaks ?? [])];
  const runs = new BackgroundRuns(options);
  const isCall = ({ path }: Asked): boolean => format.path.test(path);
  let calls = 0;
  const act: Act = (response, asked) => {
    if (hasBackground && BackgroundRuns.isAbout(asked)) return runs.answer(asked)(response, asked);
    if (!isCall(asked)) return listModels(response);
    calls++;
    const messages = listOf(asked.body[format.messages]);
    const last = messages.at(-1) ?? {};
    const isPrefilled = last["role"] === "assistant" || last["role"] === "model";
    const way = isPrefilled ? prefill(asked.body, last) : "anew";
    if (isPrefilled && way === "refused") return refusedPrefill(format)(response, asked);
    const said = script?.(messages, asked) ?? { text: isSteady ? STEADY_TEXT : varyingText(calls) };
    if (typeof said === "function") return said(response, asked);
    const frames = format.frames(way === "continued" ? restOf(said, textOf(last)) : said);
    const broken = breaks.shift();
    const answer =
      hasBackground && asked.body["background"] === true
        ? runs.begin(frames, broken)
        : saying(format, frames, broken);
    return answer(response, asked);
  };
  const server = await ProviderServer.start(t, act);
  const baseURL = `${server.origin}/v1`;
  return {
    baseURL,
    config: { type: format.type, baseURL },
    runs,
    requests: server.asked,
    get calls() {
      return server.asked.filter(isCall);
    },
  };
}

function refusedPrefill({ error }: Format): Act {
  const message = "the conversation must end with a message of the user";
  return refuses(400, error(400, "invalid_request_error", message));
}

/** What is missing of a text behind its beginning; all of it behind another one, as a model would find something to say. */
function restOf(said: Said, begun: string): Said {
  const text = typeof said.text === "string" ? said.text : (said.text ?? []).join("");
  const { thinking: _, ...rest } = said;
  return { ...rest, text: text.startsWith(begun) ? text.slice(begun.length) : text };
}

function listModels(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ object: "list", data: [{ id: MODEL, object: "model" }] }));
}

export function openaiProvider(t: Cleanup, script: Script): Promise<ScriptedProvider> {
  return scriptedProvider(t, { ...FLAVOURS.chat, prefill: anew }, { script });
}

/** Refuses to continue when a tool call of its own is sent back without the signed reasoning that led to it. */
export function anthropicProvider(t: Cleanup, script: Script): Promise<ScriptedProvider> {
  const strict: Script = (messages, asked) =>
    messages.every(isSigned) ? script(messages, asked) : refuses(400, UNSIGNED);
  return scriptedProvider(t, { ...FLAVOURS.claude, prefill: anew }, { script: strict });
}

/** OpenAI's responses: refuses a function call of its own that comes back without the sealed thought that led to it. */
export function responsesProvider(t: Cleanup, script: Script): Promise<ScriptedProvider> {
  const strict: Script = (items, asked) =>
    items.every((item, at) => item["type"] !== "function_call" || hasThought(items, at))
      ? script(items, asked)
      : refuses(
          400,
          RESPONSES.error(400, "invalid_request_error", "a function_call needs its reasoning item"),
        );
  return scriptedProvider(t, { ...FLAVOURS.responses, hasBackground: false }, { script: strict });
}

function hasThought(items: readonly Fields[], at: number): boolean {
  const before = items.slice(0, at).findLast(({ type }) => type !== "message");
  return before?.["type"] === "reasoning" && before["encrypted_content"] === SEALED_THOUGHT;
}

const UNSIGNED = ANTHROPIC.error(
  400,
  "invalid_request_error",
  "a tool_use block must follow its thinking block",
);

function isSigned(message: Fields): boolean {
  const parts = listOf(message["content"]);
  if (!parts.some(({ type }) => type === "tool_use")) return true;
  return parts[0]?.["type"] === "thinking" && parts[0]["signature"] === SIGNATURE;
}

/** What a message says, whether its content is a text or a list of parts. */
export function textOf(message: Fields | undefined): string {
  const content = message?.["content"] ?? message?.["parts"];
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
