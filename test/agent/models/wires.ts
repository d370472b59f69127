/**
 * How each provider says the same things: a text, a refusal to go on, an error. What the failure tests run over.
 */
import type { ProviderType } from "../../../src/agent/models/index.ts";
import { type Act, cutAfter, events, refuses, silentAfter } from "./provider-server.ts";

export interface Wire {
  readonly type: ProviderType;
  /** The events of an answer that says "north" and then "east". */
  readonly answer: readonly unknown[];
  /** How many of them come up to and with the first word. */
  readonly begun: number;
  /** How many up to and with the one that says that the answer is whole. */
  readonly finished: number;
  /** The events of an answer that thinks "hm", then calls the tool `read` for a.txt. */
  readonly calling: readonly unknown[];
  /** How many of them come up to and with the thought, and with a first piece of the arguments. */
  readonly thought: number;
  readonly calledHalf: number;
  readonly error: (status: number, code: string, message: string) => unknown;
  /** An error within the stream that means "overloaded". */
  readonly overloaded: unknown;
  readonly tooLong: Act;
  readonly filtered: Act;
  readonly filteredLate: Act;
}

const chunk = (delta: object, finish: string | null = null) => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1,
  model: "test-model",
  choices: [{ index: 0, delta, finish_reason: finish }],
});

const openAIError = (_: number, code: string, message: string) => ({
  error: { message, type: code, code, param: null },
});

const COMPATIBLE: Wire = {
  type: "openai-compatible",
  answer: [
    chunk({ role: "assistant", content: "" }),
    chunk({ content: "north" }),
    chunk({ content: "east" }),
    chunk({}, "stop"),
    "[DONE]",
  ],
  begun: 2,
  finished: 4,
  calling: [
    chunk({ role: "assistant", reasoning_content: "hm" }),
    chunk({ tool_calls: [{ index: 0, id: "call_1", function: { name: "read", arguments: "" } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"path":' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '"a.txt"}' } }] }),
    chunk({}, "tool_calls"),
    "[DONE]",
  ],
  thought: 1,
  calledHalf: 3,
  error: openAIError,
  overloaded: { error: { message: "overloaded", type: "server_error", code: 503 } },
  tooLong: refuses(
    400,
    openAIError(400, "context_length_exceeded", "This model's maximum context length is 8192"),
  ),
  filtered: events(chunk({ role: "assistant", content: "" }), chunk({}, "content_filter"), "[DONE]"),
  filteredLate: events(chunk({ content: "north" }), chunk({}, "content_filter"), "[DONE]"),
};

const response = (status: string, more: object = {}) => ({
  id: "resp_1",
  created_at: 1,
  model: "test-model",
  status,
  output: [],
  incomplete_details: null,
  usage: { input_tokens: 9, output_tokens: 2 },
  ...more,
});
const message = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] };
const said = (delta: string) => ({
  type: "response.output_text.delta",
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta,
});

const reasoning = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: null };
const functionCall = (status: string, args: string) => ({
  id: "fc_1",
  type: "function_call",
  call_id: "call_1",
  name: "read",
  arguments: args,
  status,
});
const argumentsPiece = (delta: string) => ({
  type: "response.function_call_arguments.delta",
  item_id: "fc_1",
  output_index: 1,
  delta,
});

const OPENAI: Wire = {
  type: "openai",
  answer: [
    { type: "response.created", response: response("in_progress") },
    { type: "response.output_item.added", output_index: 0, item: message },
    said("north"),
    said("east"),
    { type: "response.output_item.done", output_index: 0, item: { ...message, status: "completed" } },
    { type: "response.completed", response: response("completed") },
  ],
  begun: 3,
  finished: 6,
  calling: [
    { type: "response.created", response: response("in_progress") },
    { type: "response.output_item.added", output_index: 0, item: reasoning },
    {
      type: "response.reasoning_summary_part.added",
      item_id: "rs_1",
      output_index: 0,
      summary_index: 0,
    },
    {
      type: "response.reasoning_summary_text.delta",
      item_id: "rs_1",
      output_index: 0,
      summary_index: 0,
      delta: "hm",
    },
    { type: "response.output_item.done", output_index: 0, item: reasoning },
    { type: "response.output_item.added", output_index: 1, item: functionCall("in_progress", "") },
    argumentsPiece('{"path":'),
    argumentsPiece('"a.txt"}'),
    {
      type: "response.output_item.done",
      output_index: 1,
      item: functionCall("completed", '{"path":"a.txt"}'),
    },
    { type: "response.completed", response: response("completed") },
  ],
  thought: 4,
  calledHalf: 7,
  error: openAIError,
  overloaded: {
    type: "error",
    sequence_number: 9,
    error: { type: "server_error", code: "overloaded", message: "overloaded", param: null },
  },
  tooLong: refuses(400, openAIError(400, "context_length_exceeded", "Your input exceeds the context window")),
  filtered: events(
    { type: "response.created", response: response("in_progress") },
    {
      type: "response.incomplete",
      response: response("incomplete", { incomplete_details: { reason: "content_filter" } }),
    },
  ),
  filteredLate: events(
    { type: "response.created", response: response("in_progress") },
    { type: "response.output_item.added", output_index: 0, item: message },
    said("north"),
    {
      type: "response.incomplete",
      response: response("incomplete", { incomplete_details: { reason: "content_filter" } }),
    },
  ),
};

const started = {
  type: "message_start",
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "test-model",
    content: [],
    stop_reason: null,
    usage: { input_tokens: 9, output_tokens: 1 },
  },
};
const text = (words: string) => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text: words },
});
const stopped = (reason: string) => ({
  type: "message_delta",
  delta: { stop_reason: reason, stop_sequence: null },
  usage: { output_tokens: 2 },
});
const textBlock = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
const anthropicError = (_: number, type: string, message: string) => ({
  type: "error",
  error: { type, message },
});

const ANTHROPIC: Wire = {
  type: "anthropic",
  answer: [
    started,
    textBlock,
    text("north"),
    text("east"),
    { type: "content_block_stop", index: 0 },
    stopped("end_turn"),
    { type: "message_stop" },
  ],
  begun: 3,
  finished: 6,
  calling: [
    started,
    {
      type: "content_block_start",
      index: 0,
      content_block: { type: "thinking", thinking: "", signature: "" },
    },
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
    { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "S" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "content_block_start",
      index: 1,
      content_block: { type: "tool_use", id: "call_1", name: "read", input: {} },
    },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"path":' } },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '"a.txt"}' } },
    { type: "content_block_stop", index: 1 },
    stopped("tool_use"),
    { type: "message_stop" },
  ],
  thought: 3,
  calledHalf: 7,
  error: anthropicError,
  overloaded: anthropicError(529, "overloaded_error", "overloaded"),
  tooLong: refuses(
    400,
    anthropicError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
  ),
  filtered: events(started, stopped("refusal"), { type: "message_stop" }),
  filteredLate: events(
    started,
    textBlock,
    text("north"),
    { type: "content_block_stop", index: 0 },
    stopped("refusal"),
    { type: "message_stop" },
  ),
};

const candidate = (parts: readonly object[], finishReason?: string) => ({
  candidates: [
    { content: { role: "model", parts }, ...(finishReason === undefined ? {} : { finishReason }) },
  ],
  usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 },
});
const googleError = (code: number, status: string, message: string) => ({ error: { code, status, message } });

const GOOGLE: Wire = {
  type: "google",
  answer: [candidate([{ text: "north" }]), candidate([{ text: "east" }]), candidate([{ text: "" }], "STOP")],
  begun: 1,
  finished: 3,
  // Google says a call whole.
  calling: [
    candidate([{ text: "hm", thought: true }]),
    candidate([{ functionCall: { id: "call_1", name: "read", args: { path: "a.txt" } } }]),
    candidate([{ text: "" }], "STOP"),
  ],
  thought: 1,
  calledHalf: 2,
  error: googleError,
  overloaded: googleError(503, "UNAVAILABLE", "overloaded"),
  tooLong: refuses(
    400,
    googleError(
      400,
      "INVALID_ARGUMENT",
      "The input token count (2000000) exceeds the maximum number of tokens allowed",
    ),
  ),
  filtered: events({ promptFeedback: { blockReason: "SAFETY" }, usageMetadata: { promptTokenCount: 9 } }),
  filteredLate: events(candidate([{ text: "north" }]), candidate([], "SAFETY")),
};

export const WIRES: readonly Wire[] = [COMPATIBLE, OPENAI, ANTHROPIC, GOOGLE];

export const answers = ({ answer }: Wire): Act => events(...answer);
export const breaksOff = ({ answer, begun }: Wire): Act => cutAfter(...answer.slice(0, begun));
export const endsEarly = ({ answer, begun }: Wire): Act => events(...answer.slice(0, begun));
export const fallsSilent = ({ answer, begun }: Wire): Act => silentAfter(...answer.slice(0, begun));
export const saysGarbage = ({ answer, begun }: Wire): Act =>
  events(...answer.slice(0, begun), '{"half an obj');
export const failsInside = ({ answer, begun, overloaded }: Wire): Act =>
  events(...answer.slice(0, begun), overloaded);
