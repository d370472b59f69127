/**
 * How each provider says an answer in its own wire format: frame by frame, with what each frame brings.
 *
 * The places let a test break an answer "in its text" or "behind its finish marker" in every format alike.
 */
import { randomUUID } from "node:crypto";
import type { Dialect } from "../../../../src/agent/models/dialect.ts";
import type { Fields } from "./server.ts";

export const MODEL = "quill";

export interface ScriptedCall {
  readonly name: string;
  readonly args: Fields;
  /** Default: a new one, as providers have it. */
  readonly id?: string;
}

/** What a model says. A text is said word by word; a list, piece by piece. */
export interface Said {
  readonly thinking?: string | readonly string[];
  readonly text?: string | readonly string[];
  readonly calls?: readonly ScriptedCall[];
}

/** What a frame brings. `around`: what belongs to items and blocks and has no content. */
export type Place = "head" | "around" | "thinking" | "text" | "call" | "arguments" | "finish" | "tail";

export interface Frame {
  readonly place: Place;
  readonly data: unknown;
}

export interface Format {
  readonly type: Dialect;
  /** Where answers are asked for: the end of the path. */
  readonly path: RegExp;
  /** The field of a request that holds its messages. */
  readonly messages: string;
  readonly frames: (said: Said) => readonly Frame[];
  readonly error: (status: number, code: string, message: string) => unknown;
  /** An error within the stream that means "overloaded". */
  readonly overloaded: unknown;
  /** A sign of life, as it stands in the stream. */
  readonly ping: string;
}

function pieces(said: string | readonly string[] | undefined): readonly string[] {
  if (typeof said !== "string") return said ?? [];
  return said.match(/\S+\s*/g) ?? [];
}

/** Arguments are written in two pieces. */
function halves({ args }: ScriptedCall): readonly [string, string] {
  const text = JSON.stringify(args);
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)];
}

/** What is written between the beginning and the end of an item or block. */
const within = (begun: Frame, inside: readonly Frame[], end: object): readonly Frame[] => [
  begun,
  ...inside,
  at("around")(end),
];

const at =
  (place: Place) =>
  (data: unknown): Frame => ({ place, data });

const COMMENT = ": keep-alive\n\n";

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

/** An answer in OpenAI's chat completions, as its events. */
export function openaiEvents(said: Said): readonly unknown[] {
  return CHAT.frames(said).map(({ data }) => data);
}

function openAIError(_: number, code: string, message: string): object {
  return { error: { message, type: code, code, param: null } };
}

/** OpenAI's chat completions, as nearly every other server speaks them. */
export const CHAT: Format = {
  type: "openai-compatible",
  path: /\/chat\/completions$/,
  messages: "messages",
  frames: ({ thinking, text, calls = [] }) => [
    at("head")(chunkOf({ role: "assistant", content: "" })),
    ...pieces(thinking).map((piece) => at("thinking")(chunkOf({ reasoning_content: piece }))),
    ...pieces(text).map((piece) => at("text")(chunkOf({ content: piece }))),
    ...calls.flatMap((call, index) => {
      const { name, id = `call_${randomUUID().replaceAll("-", "")}` } = call;
      const begun = { index, id, type: "function", function: { name, arguments: "" } };
      const more = halves(call).map((args) => ({ index, function: { arguments: args } }));
      return [
        at("call")(chunkOf({ tool_calls: [begun] })),
        ...more.map((piece) => at("arguments")(chunkOf({ tool_calls: [piece] }))),
      ];
    }),
    at("finish")(chunkOf({}, calls.length > 0 ? "tool_calls" : "stop")),
    at("tail")({ ...chunkOf({}), choices: [], usage: { ...USAGE, ...DETAILS } }),
    at("tail")("[DONE]"),
  ],
  error: openAIError,
  overloaded: { error: { message: "overloaded", type: "server_error", code: 503 } },
  ping: ": OPENROUTER PROCESSING\n\n",
};

export function responseOf(status: string, output: readonly object[] = [], more: object = {}): object {
  const usage = { input_tokens: 9, output_tokens: 2 };
  const about = { id: "resp_1", object: "response", created_at: 1, model: MODEL, incomplete_details: null };
  return { ...about, status, output, usage, ...more };
}

/** What OpenAI gives with a thought when it stores nothing. */
export const SEALED_THOUGHT = "gAAAAABhIHRob3VnaHQgb2YgdGhlIHByb3ZpZGVy";

interface Item {
  readonly place: Place;
  readonly begun: object;
  readonly done: object;
  readonly inside: (output_index: number) => readonly Frame[];
}

function itemsOf({ thinking, text, calls = [] }: Said): readonly Item[] {
  const items: Item[] = [];
  const [thoughts, words] = [pieces(thinking), pieces(text)];
  if (thoughts.length > 0) {
    const begun = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: null };
    const sealed = { encrypted_content: SEALED_THOUGHT };
    const whole = { type: "summary_text", text: thoughts.join("") };
    items.push({
      place: "around",
      begun,
      done: { ...begun, summary: [whole], ...sealed },
      inside: (output_index) => {
        const place = { item_id: "rs_1", output_index, summary_index: 0 };
        const type = "response.reasoning_summary_text.delta";
        const deltas = thoughts.map((delta) => ({
          type,
          item_id: "rs_1",
          output_index,
          summary_index: 0,
          delta,
        }));
        return [
          at("around")({ type: "response.reasoning_summary_part.added", ...place }),
          ...deltas.map(at("thinking")),
        ];
      },
    });
  }
  if (words.length > 0) {
    const about = { id: "msg_1", type: "message", role: "assistant" };
    const content = [{ type: "output_text", text: words.join(""), annotations: [] }];
    items.push({
      place: "around",
      begun: { ...about, status: "in_progress", content: [] },
      done: { ...about, status: "completed", content },
      inside: (output_index) =>
        words.map((delta) =>
          at("text")({
            type: "response.output_text.delta",
            item_id: "msg_1",
            output_index,
            content_index: 0,
            delta,
          }),
        ),
    });
  }
  for (const [index, call] of calls.entries()) {
    const { name, args, id = `call_${randomUUID().slice(0, 8)}` } = call;
    const about = { id: `fc_${index + 1}`, type: "function_call", call_id: id, name };
    items.push({
      place: "call",
      begun: { ...about, arguments: "", status: "in_progress" },
      done: { ...about, arguments: JSON.stringify(args), status: "completed" },
      inside: (output_index) =>
        halves(call).map((delta) =>
          at("arguments")({
            type: "response.function_call_arguments.delta",
            item_id: about.id,
            output_index,
            delta,
          }),
        ),
    });
  }
  return items;
}

function numbered(data: unknown, sequence_number: number): unknown {
  return typeof data === "object" ? { ...data, sequence_number } : data;
}

/** OpenAI's responses. Its last event has the whole answer, as its first one has the name. */
export const RESPONSES: Format = {
  type: "openai",
  path: /\/responses$/,
  messages: "input",
  frames: (said) => {
    const items = itemsOf(said);
    const output = items.map(({ done }) => done);
    const frames = [
      at("head")({ type: "response.created", response: responseOf("in_progress") }),
      ...items.flatMap(({ place, begun, done, inside }, output_index) =>
        within(
          at(place)({ type: "response.output_item.added", output_index, item: begun }),
          inside(output_index),
          { type: "response.output_item.done", output_index, item: done },
        ),
      ),
      at("finish")({ type: "response.completed", response: responseOf("completed", output) }),
    ];
    return frames.map(({ place, data }, sequence_number) => at(place)(numbered(data, sequence_number)));
  },
  error: openAIError,
  overloaded: {
    type: "error",
    sequence_number: 9,
    error: { type: "server_error", code: "overloaded", message: "overloaded", param: null },
  },
  ping: COMMENT,
};

/** What Anthropic gives each answer as the signature of its reasoning. */
export const SIGNATURE = "c2lnbmF0dXJlIG9mIHRoZSBwcm92aWRlcg==";

type Block = readonly [place: Place, begun: object, ...deltas: readonly Frame[]];

function anthropicBlocks({ thinking, text, calls = [] }: Said): readonly Block[] {
  const blocks: Block[] = [];
  const [thoughts, words] = [pieces(thinking), pieces(text)];
  if (thoughts.length > 0) {
    blocks.push([
      "around",
      { type: "thinking", thinking: "", signature: "" },
      ...thoughts.map((piece) => at("thinking")({ type: "thinking_delta", thinking: piece })),
      at("around")({ type: "signature_delta", signature: SIGNATURE }),
    ]);
  }
  if (words.length > 0) {
    blocks.push([
      "around",
      { type: "text", text: "" },
      ...words.map((piece) => at("text")({ type: "text_delta", text: piece })),
    ]);
  }
  for (const call of calls) {
    const { name, id = `toolu_${randomUUID().slice(0, 8)}` } = call;
    blocks.push([
      "call",
      { type: "tool_use", id, name, input: {} },
      ...halves(call).map((partial_json) => at("arguments")({ type: "input_json_delta", partial_json })),
    ]);
  }
  return blocks;
}

export function anthropicStop(stop_reason: string): object {
  return { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 2 } };
}

export const ANTHROPIC: Format = {
  type: "anthropic",
  path: /\/messages$/,
  messages: "messages",
  frames: (said) => {
    const message = { id: "m", type: "message", role: "assistant", model: MODEL, content: [] };
    const usage = { input_tokens: 9, output_tokens: 1 };
    const isCalling = (said.calls ?? []).length > 0;
    return [
      at("head")({ type: "message_start", message: { ...message, stop_reason: null, usage } }),
      ...anthropicBlocks(said).flatMap(([place, content_block, ...deltas], index) =>
        within(
          at(place)({ type: "content_block_start", index, content_block }),
          deltas.map((frame) => at(frame.place)({ type: "content_block_delta", index, delta: frame.data })),
          { type: "content_block_stop", index },
        ),
      ),
      at("finish")(anthropicStop(isCalling ? "tool_use" : "end_turn")),
      at("tail")({ type: "message_stop" }),
    ];
  },
  error: (_, type, message) => ({ type: "error", error: { type, message } }),
  overloaded: { type: "error", error: { type: "overloaded_error", message: "overloaded" } },
  ping: 'event: ping\ndata: {"type":"ping"}\n\n',
};

export function candidateOf(parts: readonly object[], finishReason?: string): object {
  const finish = finishReason === undefined ? {} : { finishReason };
  return {
    candidates: [{ content: { role: "model", parts }, ...finish }],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 },
  };
}

/** Google's first event is content, and a call comes whole. */
export const GOOGLE: Format = {
  type: "google",
  path: /:streamGenerateContent/,
  messages: "contents",
  frames: ({ thinking, text, calls = [] }) => [
    ...pieces(thinking).map((piece) => at("thinking")(candidateOf([{ text: piece, thought: true }]))),
    ...pieces(text).map((piece) => at("text")(candidateOf([{ text: piece }]))),
    ...calls.map(({ name, args, id = `call_${randomUUID().slice(0, 8)}` }) =>
      at("arguments")(candidateOf([{ functionCall: { id, name, args } }])),
    ),
    at("finish")(candidateOf([{ text: "" }], "STOP")),
  ],
  error: (code, status, message) => ({ error: { code, status, message } }),
  overloaded: { error: { code: 503, status: "UNAVAILABLE", message: "overloaded" } },
  ping: COMMENT,
};
