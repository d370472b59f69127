/**
 * Bodies of `POST /v1/responses`: what becomes of each kind of item, tool and option, and what is refused.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../src/protocol/chat-message.ts";
import { ToolChoiceMode } from "../../../src/protocol/messages.ts";
import {
  GatewayError,
  lineageOf,
  type LineMessage,
  parseChatRequest,
} from "../../../src/gateway/openai/index.ts";
import { type KeptItems, parseResponseRequest } from "../../../src/gateway/responses/index.ts";

const NONE: KeptItems = {
  through: async () => undefined,
  outputOf: async () => undefined,
  conversation: async () => undefined,
};
const RULES = { allowRemoteImages: false };

const parse = (body: JsonObject, kept = NONE) => parseResponseRequest({ model: "m", ...body }, RULES, kept);

async function linesOf(...input: readonly JsonObject[]): Promise<readonly LineMessage[]> {
  return (await parse({ input })).request.messages;
}

async function refusal(body: JsonObject, kept = NONE): Promise<string> {
  const error = await parse(body, kept).then(
    () => assert.fail("it is accepted"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof GatewayError, String(error));
  return `${error.status} ${error.param} ${error.code}`;
}

const user = (content: string): JsonObject => ({ role: "user", content });
const said = (text: string): JsonObject => ({
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [] }],
});
const call = (call_id: string, args = "{}"): JsonObject => ({
  type: "function_call",
  call_id,
  name: "note",
  arguments: args,
});
const output = (call_id: string, given: JsonObject[string]): JsonObject => ({
  type: "function_call_output",
  call_id,
  output: given,
});

test("instructions and the developer's first items are the system prompt; later ones stay where they are", async () => {
  const { request } = await parse({
    instructions: "Be brief.",
    input: [
      { role: "developer", content: "No jokes." },
      { type: "message", role: "system", content: [{ type: "input_text", text: "In English." }] },
      user("hello"),
      { role: "developer", content: "Now in French." },
    ],
  });
  assert.equal(request.system, "Be brief.\n\nNo jokes.\n\nIn English.");
  assert.deepEqual(
    request.messages.map(({ role }) => role),
    ["user", "system"],
  );
});

test("thoughts, text and calls in a row are one message, with the lineage of the same words by chat", async () => {
  const lines = await linesOf(
    user("hello"),
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
    said("Two."),
    {
      type: "reasoning",
      id: "rs_2",
      summary: [{ type: "summary_text", text: "Signed." }],
      encrypted_content: "x",
    },
    call("a", '{"b":1,"a":2}'),
    call("b"),
    output("b", "second"),
    output("a", [{ type: "input_text", text: "first" }]),
  );
  assert.deepEqual(lines[1], {
    role: "assistant",
    text: "Two.",
    reasoning: "Hm.",
    thoughts: [{ token: "x", at: 4 }],
    toolCalls: [
      { id: "a", name: "note", args: '{"b":1,"a":2}' },
      { id: "b", name: "note", args: "{}" },
    ],
  });
  const calls = ["a", "b"].map((id) => ({
    id,
    type: "function",
    function: { name: "note", arguments: id === "a" ? '{"a":2,"b":1}' : "" },
  }));
  const chat = parseChatRequest({
    model: "m",
    messages: [
      user("hello"),
      { role: "assistant", content: "Two.", tool_calls: calls },
      { role: "tool", tool_call_id: "a", content: "first" },
      { role: "tool", tool_call_id: "b", content: "second" },
    ],
  });
  assert.deepEqual(lineageOf(lines), lineageOf(chat.messages));
});

test("texts of one answer in several items are joined as its steps were", async () => {
  const textOf = async (...texts: readonly string[]): Promise<string | undefined> => {
    const [line] = await linesOf(...texts.map(said));
    return line?.role === "assistant" ? line.text : undefined;
  };
  assert.equal(await textOf("One.", "\n\nTwo."), "One.\n\nTwo.");
  assert.equal(await textOf("One.\n", "Two."), "One.\nTwo.");
  assert.equal(await textOf("One.", "Two."), "One.\n\nTwo.");
});

test("images and files are decoded; remote ones and uploaded ones are refused", async () => {
  const image = (more: JsonObject): JsonObject => ({
    role: "user",
    content: [{ type: "input_image", ...more }],
  });
  const [line] = await linesOf(image({ image_url: "data:image/png;base64,aGk=", detail: "low" }));
  const bytes = new TextEncoder().encode("hi");
  assert.deepEqual(line, {
    role: "user",
    parts: [{ type: "file", mediaType: "image/png", bytes, detail: "low" }],
  });
  const file = { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,aGk=" };
  const [pdf] = await linesOf({ role: "user", content: [file] });
  assert.deepEqual(pdf, {
    role: "user",
    parts: [{ type: "file", mediaType: "application/pdf", bytes, fileName: "a.pdf" }],
  });
  assert.match(await refusal({ input: [image({ image_url: "https://a.example/b.png" })] }), /^400/);
  assert.match(await refusal({ input: [image({ file_id: "file-1" })] }), /^400/);
});

test("functions are tools, and all other kinds are named and left out, with the choices among them", async () => {
  const tools = [
    { type: "function", name: "note", parameters: { type: "object" } },
    { type: "namespace", name: "mcp", tools: [] },
    { type: "web_search" },
    { type: "web_search" },
  ];
  const { request } = await parse({ input: "hi", tools, tool_choice: { type: "web_search" } });
  assert.deepEqual(request.tools, [
    { name: "note", description: "", parametersJson: '{"type":"object"}', strict: false },
  ]);
  assert.deepEqual(request.wishes.ignored, ["tool_choice", "tools.namespace", "tools.web_search"]);
  assert.equal(request.options.toolChoice, undefined);
  const only = await parse({ input: "hi", tools: [{ type: "custom", name: "x" }], tool_choice: "required" });
  assert.equal(only.request.options.toolChoice, undefined, "there is nothing left to choose");
  const named = await parse({ input: "hi", tools, tool_choice: { type: "function", name: "note" } });
  assert.deepEqual(named.request.options.toolChoice, { choice: { case: "tool", value: "note" } });
  const required = await parse({ input: "hi", tools, tool_choice: "required" });
  const must = { choice: { case: "mode", value: ToolChoiceMode.REQUIRED } };
  assert.deepEqual(required.request.options.toolChoice, must, "one tool is left to choose");
  const none = await parse({ input: "hi", tools, tool_choice: "none" });
  assert.deepEqual(none.request.options.toolChoice, { choice: { case: "mode", value: ToolChoiceMode.NONE } });
  assert.match(await refusal({ input: "hi", tools: [tools[0] ?? {}, tools[0] ?? {}] }), /^400 tools/);
});

test("items that no model is given are named and left out", async () => {
  const { request } = await parse({
    input: [{ type: "web_search_call", id: "ws_1", status: "completed" }, user("hi")],
  });
  assert.equal(request.messages.length, 1);
  assert.deepEqual(request.wishes.ignored, ["input.web_search_call"]);
});

test("no kind of tool or item that Codex and others send is refused", async () => {
  const kinds = [
    "namespace",
    "web_search",
    "web_search_preview",
    "custom",
    "local_shell",
    "shell",
    "apply_patch",
  ];
  const others = [
    "file_search",
    "computer_use_preview",
    "mcp",
    "code_interpreter",
    "image_generation",
    "tool_search",
  ];
  const tools = [...kinds, ...others].map((type) => ({ type, name: "x" }));
  const items = [
    { type: "custom_tool_call", call_id: "p", name: "apply_patch", input: "*** Begin Patch" },
    { type: "custom_tool_call_output", call_id: "p", output: "Done!" },
    {
      type: "local_shell_call",
      call_id: "s",
      status: "completed",
      action: { type: "exec", command: ["ls"] },
    },
    { type: "local_shell_call_output", id: "s", output: "a" },
    { type: "web_search_call", status: "completed", action: { type: "search", query: "q" } },
    { type: "compaction", encrypted_content: "x" },
    { type: "additional_tools", role: "developer", tools: [] },
    { type: "of tomorrow" },
  ];
  for (const tool_choice of ["auto", { type: "custom", name: "x" }, { type: "allowed_tools", tools: [] }]) {
    const { request } = await parse({ input: [...items, user("hi")], tools, tool_choice });
    assert.deepEqual(request.tools, []);
    assert.equal(request.messages.length, 1);
    const ignored = [...tools, ...items].filter(
      ({ type }) =>
        !request.wishes.ignored.includes(`tools.${type}`) &&
        !request.wishes.ignored.includes(`input.${type}`),
    );
    assert.deepEqual(ignored, [], "each is named");
  }
});

test("options reach the model, and what the request asked is repeated", async () => {
  const format = { type: "json_schema", name: "answer", schema: { type: "object" }, strict: true };
  const { request, asked } = await parse({
    input: "hi",
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    max_output_tokens: 100,
    parallel_tool_calls: false,
    prompt_cache_key: "k",
    reasoning: { effort: "high" },
    text: { format, verbosity: "low" },
    user: "u",
  });
  assert.deepEqual(request.options, {
    temperature: 0.5,
    topP: 0.9,
    maxOutputTokens: 100,
    limitsCompletion: true,
    parallelToolCalls: false,
    promptCacheKey: "k",
    reasoningEffort: "high",
    verbosity: "low",
    responseFormat: {
      format: {
        case: "json",
        value: { name: "answer", description: "", strict: true, schemaJson: '{"type":"object"}' },
      },
    },
    shownIsFinal: true,
  });
  assert.deepEqual(request.wishes, {
    words: ["parallel_tool_calls", "prompt_cache_key", "verbosity"],
    ignored: ["user"],
  });
  assert.deepEqual(
    [asked["text"], asked["store"], asked["instructions"]],
    [{ format, verbosity: "low" }, true, null],
  );
});

test("what came before stands before the input; what is new is behind the model's last words", async () => {
  const through = async (): Promise<readonly JsonObject[]> => [user("hello"), said("Hi.")];
  const kept = {
    ...NONE,
    through,
    outputOf: async () => [{ ...said("Hi."), id: `msg_${"1".repeat(32)}_0` }],
  };
  const { request, news, input } = await parse({ previous_response_id: "resp_1", input: "more" }, kept);
  assert.deepEqual(
    request.messages.map(({ role }) => role),
    ["user", "assistant", "user"],
  );
  assert.deepEqual(news, input);
  const reference = { type: "item_reference", id: `msg_${"1".repeat(32)}_0` };
  const referred = await parse({ input: [user("hello"), reference, user("more")] }, kept);
  assert.deepEqual(referred.request.messages, request.messages);
  assert.deepEqual(referred.news, [user("more")]);
});

test("what is not there, and what would change the answer, is refused", async () => {
  assert.equal(
    await refusal({ previous_response_id: "resp_1", input: "hi" }),
    "400 previous_response_id previous_response_not_found",
  );
  assert.equal(
    await refusal({ input: [{ type: "item_reference", id: "msg_1" }] }),
    "404 input item_not_found",
  );
  assert.equal(
    await refusal({ conversation: { id: "conv_1" }, input: "hi" }),
    "404 null conversation_not_found",
  );
  assert.equal(
    await refusal({ conversation: "conv_1", previous_response_id: "resp_1", input: "hi" }),
    "400 conversation null",
  );
  assert.equal(await refusal({ prompt: { id: "p" }, input: "hi" }), "400 prompt unsupported_value");
  assert.equal(await refusal({ input: [call("a"), call("a"), user("hi")] }), "400 input[2] null");
  assert.equal(await refusal({ input: [{ role: "critic", content: "hi" }] }), "400 input[0].role null");
  assert.equal(await refusal({ input: 7 }), "400 input null");
});
