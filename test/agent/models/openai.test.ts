import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import { StepOptionsSchema } from "../../../src/protocol/messages.ts";
import { messageOf, resultsOf, TOOLS } from "./conversation.ts";
import { API_KEY, events, type Fields, listOf, partsOf, ProviderServer, user } from "./providers/server.ts";

const response = (status: string) => ({
  id: "resp_1",
  created_at: 1,
  model: "gpt-5.5",
  status,
  output: [],
  incomplete_details: null,
  usage: {
    input_tokens: 30,
    input_tokens_details: { cached_tokens: 20 },
    output_tokens: 12,
    output_tokens_details: { reasoning_tokens: 8 },
  },
});
const added = (output_index: number, item: object) => ({
  type: "response.output_item.added",
  output_index,
  item,
});
const done = (output_index: number, item: object) => ({
  type: "response.output_item.done",
  output_index,
  item,
});
const call = (id: string, name: string, args: string) => ({
  id: `fc_${id}`,
  type: "function_call",
  call_id: `call_${id}`,
  name,
  arguments: args,
  status: "completed",
});
const argsPiece = (output_index: number, delta: string) => ({
  type: "response.function_call_arguments.delta",
  item_id: `fc_${output_index}`,
  output_index,
  delta,
});
const REASONING = { id: "rs_1", type: "reasoning", summary: [] };

const WORKING = events(
  { type: "response.created", response: response("in_progress") },
  added(0, { ...REASONING, encrypted_content: "early" }),
  {
    type: "response.reasoning_summary_part.added",
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    part: { type: "summary_text", text: "" },
  },
  {
    type: "response.reasoning_summary_text.delta",
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    delta: "look first",
  },
  {
    type: "response.reasoning_summary_part.done",
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    part: { type: "summary_text", text: "look first" },
  },
  done(0, {
    ...REASONING,
    summary: [{ type: "summary_text", text: "look first" }],
    encrypted_content: "SEALED==",
  }),
  added(1, call("1", "read", "")),
  argsPiece(1, '{"path":'),
  argsPiece(1, '"a.txt"}'),
  done(1, call("1", "read", '{"path":"a.txt"}')),
  added(2, call("2", "shell", "")),
  argsPiece(2, '{"path":"b"}'),
  done(2, call("2", "shell", '{"path":"b"}')),
  { type: "response.completed", response: response("completed") },
);

const itemsOf = (server: ProviderServer, at: number): readonly Fields[] =>
  listOf(server.asked[at]?.body["input"]);

test("reasoning, parallel tool calls in pieces and usage come through the responses API", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const parts = await partsOf(server.model("openai", { name: "gpt-5.5" }), { tools: TOOLS });
  assert.deepEqual(parts[0], { kind: "thinking", text: "look first" });
  const calls = parts.flatMap((part) => (part.kind === "tool_call" ? [part] : []));
  assert.deepEqual(
    calls.map(({ toolCallId, tool, args }) => [toolCallId, tool, args]),
    [
      ["call_1", "read", '{"path":"a.txt"}'],
      ["call_2", "shell", '{"path":"b"}'],
    ],
  );
  const written = parts.flatMap((part) => (part.kind === "tool_call_delta" ? [part.args] : []));
  assert.equal(written.join(""), '{"path":"a.txt"}{"path":"b"}');
  assert.deepEqual(parts.at(-1), {
    kind: "finish",
    reason: "tool_calls",
    usage: {
      inputTokens: 10,
      outputTokens: 12,
      cacheReadTokens: 20,
      cacheWriteTokens: 0,
      reasoningTokens: 8,
    },
  });
  const [asked] = server.asked;
  assert.equal(asked?.path, "/v1/responses");
  assert.equal(asked?.headers.authorization, `Bearer ${API_KEY}`);
  assert.equal(asked?.body["prompt_cache_key"], "conversation-1");
  assert.equal(asked?.body["store"], false);
});

test("sealed reasoning goes back unchanged, and each request begins with the one before", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const model = server.model("openai", { name: "gpt-5.5" });
  const messages = [user("hello")];
  for (let step = 0; step < 3; step++) {
    const parts = await partsOf(model, { messages, tools: TOOLS });
    messages.push(messageOf(parts), resultsOf(parts, { outcome: step === 0 ? "done" : "unknown" }));
  }
  const [first, second, third] = [0, 1, 2].map((at) => itemsOf(server, at));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  assert.ok(JSON.stringify(second).startsWith(JSON.stringify(first).slice(0, -1)));
  assert.ok(JSON.stringify(third).startsWith(JSON.stringify(second).slice(0, -1)));
  const reasoning = second.find((item) => item["type"] === "reasoning");
  assert.equal(reasoning?.["encrypted_content"], "SEALED==");
  assert.deepEqual(reasoning?.["summary"], [{ type: "summary_text", text: "look first" }]);
  assert.match(JSON.stringify(third.at(-1)), /unknown: result of call_2/);
});

test("options in OpenAI's words", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const options = create(StepOptionsSchema, {
    reasoningEffort: "gigantic",
    parallelToolCalls: false,
    maxOutputTokens: 77,
    toolChoice: { choice: { case: "mode", value: 3 } },
    responseFormat: {
      format: { case: "json", value: { schemaJson: '{"type":"object"}', name: "answer", strict: true } },
    },
    providerOptionsJson: '{"serviceTier":"flex"}',
  });
  const models = { limits: { "test/gpt-5.5": { outputTokensMax: 50 } } };
  await partsOf(server.model("openai", { name: "gpt-5.5", models }), {
    tools: TOOLS,
    options,
    conversationId: "x".repeat(99),
  });
  const { body } = server.asked[0] ?? {};
  assert.match(JSON.stringify(body?.["reasoning"]), /"effort":"gigantic"/);
  assert.equal(body?.["parallel_tool_calls"], false);
  assert.equal(body?.["max_output_tokens"], 50, "the configured limit is the ceiling");
  assert.equal(body?.["tool_choice"], "required");
  assert.equal(body?.["service_tier"], "flex");
  assert.match(JSON.stringify(body?.["text"]), /"type":"json_schema".*"name":"answer"/);
  assert.match(String(body?.["prompt_cache_key"]), /^[0-9a-f]{64}$/);
});

test("options that cannot be read are refused before the call", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  for (const broken of ["{", "[]", "7"]) {
    const options = create(StepOptionsSchema, { providerOptionsJson: broken });
    await assert.rejects(partsOf(server.model("openai"), { options }), { kind: "invalid_request" });
  }
  assert.equal(server.asked.length, 0);
});
