/** What the model wrote goes back to it byte for byte, as the provider receives it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelPart } from "../../../src/agent/model.ts";
import type { ProviderType } from "../../../src/agent/models/index.ts";
import { verbatim, withoutMarks } from "../../../src/agent/models/verbatim.ts";
import { messageOf, resultsOf, TOOLS } from "./conversation.ts";
import { type Act, events, partsOf, ProviderServer, user } from "./providers/server.ts";
import { answers, WIRES } from "./providers/wires.ts";

/** Large numbers, spaces, names that engines sort, a name that parsers fear, a quote and a backslash. */
const ARGS =
  '{ "id": 12345678901234567890, "2":1.0, "1":1e2, "__proto__":{"a":1}, "path":"a\\\\\\"\\u00e9" }';

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason }],
});

const item = {
  type: "function_call",
  id: "fc_1",
  call_id: "call_1",
  name: "read",
  arguments: "",
  status: "in_progress",
};
const response = (status: string) => ({
  id: "resp_1",
  created_at: 1,
  model: "m",
  status,
  output: [],
  incomplete_details: null,
  usage: { input_tokens: 9, output_tokens: 2 },
});

/** One call with these arguments, in each provider's words; the arguments stand in the events as a text. */
const CALLING: Readonly<Partial<Record<ProviderType, Act>>> = {
  "openai-compatible": events(
    chunk({
      tool_calls: [
        {
          index: 0,
          id: "call_1",
          type: "function",
          function: { name: "read", arguments: ARGS.slice(0, 20) },
        },
      ],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: ARGS.slice(20) } }] }),
    chunk({}, "tool_calls"),
    "[DONE]",
  ),
  openai: events(
    { type: "response.created", response: response("in_progress") },
    { type: "response.output_item.added", output_index: 0, item },
    { type: "response.function_call_arguments.delta", item_id: "fc_1", output_index: 0, delta: ARGS },
    {
      type: "response.output_item.done",
      output_index: 0,
      item: { ...item, arguments: ARGS, status: "completed" },
    },
    { type: "response.completed", response: response("completed") },
  ),
  anthropic: events(
    {
      type: "message_start",
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        model: "x",
        content: [],
        stop_reason: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    },
    {
      type: "content_block_start",
      index: 0,
      content_block: { type: "tool_use", id: "t", name: "read", input: {} },
    },
    {
      type: "content_block_delta",
      index: 0,
      delta: { type: "input_json_delta", partial_json: ARGS.slice(0, 30) },
    },
    {
      type: "content_block_delta",
      index: 0,
      delta: { type: "input_json_delta", partial_json: ARGS.slice(30) },
    },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: { output_tokens: 2 },
    },
    { type: "message_stop" },
  ),
};

const argsIn = (parts: readonly ModelPart[]): readonly string[] =>
  parts.flatMap((part) => (part.kind === "tool_call" ? [part.args] : []));

for (const [type, embedded] of [
  ["openai-compatible", `"arguments":${JSON.stringify(ARGS)}`],
  ["openai", `"arguments":${JSON.stringify(ARGS)}`],
  ["anthropic", `"input":${ARGS}`],
] as const) {
  test(`${type}: arguments come from the provider and go back to it with every byte`, async (t) => {
    const wire = WIRES.find((one) => one.type === type);
    assert.ok(wire !== undefined);
    const calling = CALLING[type];
    assert.ok(calling !== undefined);
    const server = await ProviderServer.start(t, calling, answers(wire));
    const model = server.model(type);
    const parts = await partsOf(model, { tools: TOOLS });
    assert.deepEqual(argsIn(parts), [ARGS]);
    await partsOf(model, { messages: [user("go"), messageOf(parts), resultsOf(parts)], tools: TOOLS });
    const { text = "" } = server.asked[1] ?? {};
    assert.ok(text.includes(embedded), text);
    assert.doesNotMatch(text, /verbatim-/);
  });
}

test("google: numbers that JavaScript cannot hold survive the way in, and all bytes the way out", async (t) => {
  const wire = WIRES.find(({ type }) => type === "google");
  assert.ok(wire !== undefined);
  const calling: Act = (answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    const args = '{"id": 12345678901234567890, "price":1.50,"list":[1,-0.1],"text":"é 1.50"}';
    const call = `{"functionCall":{"name":"read","args":${args}}}`;
    const content = `{"candidates":[{"content":{"role":"model","parts":[${call}]},"finishReason":"STOP"}]}`;
    // In two pieces, cut within a character.
    const bytes = Buffer.from(`data: ${content}\r\n\r\n`);
    const at = bytes.indexOf(0xa9);
    answer.write(bytes.subarray(0, at), () => answer.end(bytes.subarray(at)));
  };
  const server = await ProviderServer.start(t, calling, answers(wire));
  const model = server.model("google");
  const parts = await partsOf(model, { tools: TOOLS });
  const args = '{"id":12345678901234567890,"price":1.50,"list":[1,-0.1],"text":"é 1.50"}';
  assert.deepEqual(argsIn(parts), [args]);
  const said = messageOf([{ kind: "tool_call", toolCallId: "c", tool: "read", args: ARGS }]);
  const results = resultsOf([{ kind: "tool_call", toolCallId: "c", tool: "read", args: ARGS }]);
  await partsOf(model, { messages: [user("go"), said, results], tools: TOOLS });
  assert.ok(server.asked[1]?.text.includes(`"args":${ARGS}`), server.asked[1]?.text);
});

test("a mark is replaced wherever it stands, also many of them, and nothing else is", () => {
  const [one, two] = ['{"a":"\\\\"}', '{"b":"x\\"}{"}'];
  const body = JSON.stringify({
    before: '{"verbatim-00":"x"}',
    value: verbatim(one),
    text: JSON.stringify(verbatim(two)),
    after: [verbatim("{}"), "end\\"],
  });
  assert.equal(
    withoutMarks(body),
    `{"before":${JSON.stringify('{"verbatim-00":"x"}')},"value":${one},"text":${JSON.stringify(two)},"after":[{},"end\\\\"]}`,
  );
});
