import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import type { ModelPart } from "../../../src/agent/model.ts";
import type { ChatMessage } from "../../../src/protocol/chat-message.ts";
import { StepOptionsSchema } from "../../../src/protocol/messages.ts";
import { messageOf, resultsOf, TOOLS } from "./conversation.ts";
import { API_KEY, events, type Fields, listOf, partsOf, ProviderServer, user } from "./providers/server.ts";

const start = (usage: object) => ({
  type: "message_start",
  message: { id: "m", type: "message", role: "assistant", model: "x", content: [], stop_reason: null, usage },
});
const block = (index: number, content_block: object) => ({
  type: "content_block_start",
  index,
  content_block,
});
const delta = (index: number, piece: object) => ({ type: "content_block_delta", index, delta: piece });
const stop = (index: number) => ({ type: "content_block_stop", index });
const end = (stop_reason: string, output_tokens: number) => [
  { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens } },
  { type: "message_stop" },
];

/** Thinks openly, then sealed, says a word, and calls two tools whose arguments come in pieces. */
const WORKING = events(
  start({ input_tokens: 7, cache_read_input_tokens: 100, cache_creation_input_tokens: 20, output_tokens: 1 }),
  { type: "ping" },
  block(0, { type: "thinking", thinking: "", signature: "" }),
  delta(0, { type: "thinking_delta", thinking: "look " }),
  delta(0, { type: "thinking_delta", thinking: "first" }),
  delta(0, { type: "signature_delta", signature: "SIGNATURE==" }),
  stop(0),
  block(1, { type: "redacted_thinking", data: "SEALED==" }),
  stop(1),
  block(2, { type: "text", text: "" }),
  delta(2, { type: "text_delta", text: "Reading." }),
  stop(2),
  block(3, { type: "tool_use", id: "toolu_1", name: "read", input: {} }),
  delta(3, { type: "input_json_delta", partial_json: "" }),
  delta(3, { type: "input_json_delta", partial_json: '{"path":' }),
  delta(3, { type: "input_json_delta", partial_json: '"a.txt"}' }),
  stop(3),
  block(4, { type: "tool_use", id: "toolu_2", name: "shell", input: {} }),
  delta(4, { type: "input_json_delta", partial_json: '{"path":"b"}' }),
  stop(4),
  ...end("tool_use", 42),
);
const DONE = events(
  start({ input_tokens: 1, output_tokens: 1 }),
  block(0, { type: "text", text: "" }),
  delta(0, { type: "text_delta", text: "Done." }),
  stop(0),
  ...end("end_turn", 3),
);

/** The messages of a request, with the parts of each. */
const told = (server: ProviderServer, at: number): readonly (readonly Fields[])[] =>
  listOf(server.asked[at]?.body["messages"]).map(({ content }) => listOf(content));

const systemOf = (server: ProviderServer, at: number): readonly Fields[] =>
  listOf(server.asked[at]?.body["system"]);

function unmarked(messages: readonly (readonly Fields[])[]): string {
  return JSON.stringify(messages, (name, value: unknown) => (name === "cache_control" ? undefined : value));
}

test("thinking, text and parallel tool calls come in order, with usage and cached tokens", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const parts = await partsOf(server.model("anthropic"), { tools: TOOLS });
  const shown = parts.filter(({ kind }) => kind !== "tool_call_delta");
  const by = { holdfast: { model: "test/test-model" } };
  assert.deepEqual(shown, [
    { kind: "thinking", text: "look " },
    { kind: "thinking", text: "first" },
    { kind: "thinking_end", metadata: { anthropic: { signature: "SIGNATURE==" }, ...by } },
    { kind: "thinking_end", metadata: { anthropic: { redactedData: "SEALED==" }, ...by } },
    { kind: "text", text: "Reading." },
    { kind: "text_end" },
    { kind: "tool_call", toolCallId: "toolu_1", tool: "read", args: '{"path":"a.txt"}' },
    { kind: "tool_call", toolCallId: "toolu_2", tool: "shell", args: '{"path":"b"}' },
    {
      kind: "finish",
      reason: "tool_calls",
      usage: {
        inputTokens: 7,
        outputTokens: 42,
        cacheReadTokens: 100,
        cacheWriteTokens: 20,
        reasoningTokens: 0,
      },
    },
  ] satisfies ModelPart[]);
  const written = parts.flatMap((part) => (part.kind === "tool_call_delta" ? [part.args] : []));
  assert.equal(written.join(""), '{"path":"a.txt"}{"path":"b"}');
  assert.equal(server.asked[0]?.headers["x-api-key"], API_KEY);
});

test("reasoning goes back unchanged, results are marked, and each request begins with the one before", async (t) => {
  const server = await ProviderServer.start(t, WORKING, WORKING, DONE);
  const model = server.model("anthropic");
  const messages = [user("hello")];
  for (const outcome of ["done", "denied"] as const) {
    const parts = await partsOf(model, { messages, tools: TOOLS });
    messages.push(messageOf(parts), resultsOf(parts, { outcome }));
  }
  await partsOf(model, { messages, tools: TOOLS });

  const [first, second, third] = [0, 1, 2].map((at) => told(server, at));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const answer = second[1] ?? [];
  assert.deepEqual(answer.slice(0, 2), [
    { type: "thinking", thinking: "look first", signature: "SIGNATURE==" },
    { type: "redacted_thinking", data: "SEALED==" },
  ]);
  const denied = third.at(-1) ?? [];
  assert.deepEqual(
    denied.map((part) => [part["is_error"], part["content"]]),
    [
      [true, "denied: result of toolu_1"],
      [true, "denied: result of toolu_2"],
    ],
  );
  for (const [before, after] of [
    [first, second],
    [second, third],
  ] as const) {
    assert.ok(unmarked(after).startsWith(unmarked(before).slice(0, -1)), "not a prefix");
  }
});

test("cache marks: the system prompt, the end of the prompt, and the end of the one before", async (t) => {
  const server = await ProviderServer.start(t, WORKING, DONE);
  const model = server.model("anthropic");
  const parts = await partsOf(model, { messages: [user("hello")], tools: TOOLS });
  await partsOf(model, { messages: [user("hello"), messageOf(parts), resultsOf(parts)], tools: TOOLS });
  const marked = told(server, 1).map((parts) => parts.filter((part) => "cache_control" in part).length);
  assert.deepEqual(marked, [1, 0, 1]);
  assert.deepEqual(systemOf(server, 1)[0]?.["cache_control"], { type: "ephemeral" });
  assert.deepEqual(systemOf(server, 0), systemOf(server, 1));
});

test("a conversation that another provider began: its reasoning stays out, its ids are made fit", async (t) => {
  const server = await ProviderServer.start(t, DONE);
  const messages: readonly ChatMessage[] = [
    user("hello"),
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "sealed", providerMetadata: { openai: { itemId: "rs_1" } } },
        { type: "tool-call", toolCallId: "functions.read:0#2", tool: "read", args: "{}" },
      ],
    },
  ];
  const results: ChatMessage = {
    role: "tool",
    content: [
      { type: "tool-result", toolCallId: "functions.read:0#2", tool: "read", outcome: "done", text: "" },
    ],
  };
  await partsOf(server.model("anthropic"), { messages: [...messages, results] });
  await partsOf(server.model("anthropic"), { messages });
  for (const at of [0, 1]) {
    const [, call = [], result = []] = told(server, at);
    assert.deepEqual(
      call.map(({ type, id }) => [type, id]),
      [["tool_use", "functions_read_0_2"]],
    );
    assert.equal(result[0]?.["tool_use_id"], "functions_read_0_2");
  }
});

test("an end without a reason is no end", async (t) => {
  const server = await ProviderServer.start(t, events(start({ input_tokens: 1 }), { type: "message_stop" }));
  await assert.rejects(partsOf(server.model("anthropic")), { kind: "unavailable" });
});

test("options in Anthropic's words", async (t) => {
  const server = await ProviderServer.start(t, DONE);
  const options = create(StepOptionsSchema, {
    maxOutputTokens: 100,
    topK: 5,
    stop: ["END"],
    parallelToolCalls: false,
    toolChoice: { choice: { case: "tool", value: "read" } },
    providerOptionsJson: '{"metadata":{"userId":"u1"}}',
  });
  await partsOf(server.model("anthropic"), { tools: TOOLS, options });
  const { body } = server.asked[0] ?? {};
  assert.equal(body?.["max_tokens"], 100);
  assert.equal(body?.["top_k"], 5);
  assert.deepEqual(body?.["stop_sequences"], ["END"]);
  assert.deepEqual(body?.["tool_choice"], { type: "tool", name: "read", disable_parallel_tool_use: true });
  assert.deepEqual(body?.["metadata"], { user_id: "u1" });
});

test("a reasoning effort becomes thinking; one that nobody knows is refused before the call", async (t) => {
  const server = await ProviderServer.start(t, DONE);
  const model = server.model("anthropic", { name: "claude-sonnet-4-5" });
  await partsOf(model, { options: create(StepOptionsSchema, { reasoningEffort: "high" }) });
  assert.ok(server.asked[0]?.body["thinking"] !== undefined);
  const wrong = create(StepOptionsSchema, { reasoningEffort: "enormous" });
  await assert.rejects(partsOf(model, { options: wrong }), { kind: "invalid_request" });
  assert.equal(server.asked.length, 1);
});
