/**
 * What a chat request may say, what it is read as, and how a wrong one is refused.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { GatewayError, parseChatRequest } from "../../../src/gateway/openai/index.ts";
import { ToolChoiceMode } from "../../../src/protocol/messages.ts";

const hello = { model: "m", messages: [{ role: "user", content: "Hello" }] };

function refused(body: unknown): GatewayError {
  try {
    parseChatRequest(body);
  } catch (error) {
    assert.ok(error instanceof GatewayError);
    assert.equal(error.status, 400);
    assert.equal(error.type, "invalid_request_error");
    return error;
  }
  return assert.fail("it was not refused");
}

test("the smallest request says only what it says", () => {
  assert.deepEqual(parseChatRequest(hello), {
    model: "m",
    fallbacks: [],
    stream: false,
    includeUsage: false,
    system: "",
    messages: [{ role: "user", parts: [{ type: "text", text: "Hello" }] }],
    tools: [],
    options: {},
    wishes: { words: [], ignored: [] },
  });
});

test("OpenRouter's list of models names the fallbacks, and the model where none is named", () => {
  const { model: _, ...nameless } = hello;
  for (const [body, model, fallbacks] of [
    [{ ...hello, models: ["a/x", "b/y"] }, "m", ["a/x", "b/y"]],
    [{ ...hello, models: ["m", "b/y"] }, "m", ["b/y"]],
    [{ ...nameless, models: ["a/x", "b/y", "b/y"] }, "a/x", ["b/y"]],
  ] as const) {
    const request = parseChatRequest(body);
    assert.deepEqual([request.model, request.fallbacks], [model, fallbacks]);
    assert.deepEqual(request.options.fallbackModels, fallbacks);
    assert.deepEqual(request.wishes.ignored, []);
  }
  for (const models of ["a/x", [1], [""], Array.from({ length: 17 }, (_each, at) => `a/${at}`)])
    assert.throws(() => parseChatRequest({ ...hello, models }), /models must be a list/);
  assert.throws(() => parseChatRequest({ ...nameless, models: [] }), /model must be given/);
});

test("a full request reaches the model whole", () => {
  const weather = {
    type: "function",
    function: { name: "weather", description: "d", parameters: { type: "object" }, strict: true },
  };
  const request = parseChatRequest({
    ...hello,
    stream: true,
    stream_options: { include_usage: true },
    tools: [weather, { type: "function", function: { name: "now" } }],
    tool_choice: { type: "function", function: { name: "now" } },
    parallel_tool_calls: false,
    response_format: {
      type: "json_schema",
      json_schema: { name: "s", schema: { type: "object" }, strict: true },
    },
    stop: "END",
    temperature: 0,
    top_p: 0.5,
    max_tokens: 10,
    max_completion_tokens: 20,
    presence_penalty: -1,
    frequency_penalty: 1,
    seed: 7,
    reasoning_effort: "low",
  });
  assert.equal(request.stream, true);
  assert.equal(request.includeUsage, true);
  assert.deepEqual(request.tools, [
    { name: "weather", description: "d", parametersJson: '{"type":"object"}', strict: true },
    { name: "now", description: "", parametersJson: '{"type":"object","properties":{}}', strict: false },
  ]);
  assert.deepEqual(request.options, {
    toolChoice: { choice: { case: "tool", value: "now" } },
    responseFormat: {
      format: {
        case: "json",
        value: { name: "s", description: "", strict: true, schemaJson: '{"type":"object"}' },
      },
    },
    stop: ["END"],
    temperature: 0,
    topP: 0.5,
    maxOutputTokens: 20,
    presencePenalty: -1,
    frequencyPenalty: 1,
    seed: 7n,
    reasoningEffort: "low",
    parallelToolCalls: false,
    limitsCompletion: true,
    shownIsFinal: true,
  });
});

test("penalties are between -2 and 2, both included", () => {
  for (const name of ["presence_penalty", "frequency_penalty"]) {
    for (const value of [-2, 2]) parseChatRequest({ ...hello, [name]: value });
    for (const value of [-2.1, 2.1])
      assert.throws(() => parseChatRequest({ ...hello, [name]: value }), { param: name });
  }
});

test("what only some providers have a word for is kept, and named", () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const request = parseChatRequest({
    model: "m",
    messages: [
      { role: "user", name: "ann", content: [{ type: "text", text: "a", ...mark }] },
      { role: "assistant", content: "b" },
    ],
    tools: [{ type: "function", function: { name: "f" }, ...mark }],
    max_tokens: 5,
    logit_bias: { "50256": -100 },
    verbosity: "low",
    prediction: { type: "content", content: "fog" },
    prompt_cache_key: "harbour",
    user: "u",
  });
  assert.deepEqual(request.options, {
    maxOutputTokens: 5,
    verbosity: "low",
    promptCacheKey: "harbour",
    logitBiasJson: '{"50256":-100}',
    predictionJson: '{"type":"content","content":"fog"}',
  });
  assert.deepEqual(request.messages[0], {
    role: "user",
    name: "ann",
    parts: [{ type: "text", text: "a", cacheControl: { type: "ephemeral" } }],
  });
  assert.deepEqual(request.wishes, {
    words: ["logit_bias", "verbosity", "prediction", "prompt_cache_key", "name", "cache_control"],
    ignored: ["user", "tools.cache_control"],
  });
});

test("every form of tool_choice and response_format is understood", () => {
  const tools = [{ type: "function", function: { name: "f" } }];
  const choiceOf = (given: unknown) =>
    parseChatRequest({ ...hello, tools, tool_choice: given }).options.toolChoice;
  assert.deepEqual(choiceOf("auto"), { choice: { case: "mode", value: ToolChoiceMode.AUTO } });
  assert.deepEqual(choiceOf("none"), { choice: { case: "mode", value: ToolChoiceMode.NONE } });
  assert.deepEqual(choiceOf("required"), { choice: { case: "mode", value: ToolChoiceMode.REQUIRED } });
  assert.equal(choiceOf(null), undefined);
  const formatOf = (type: string) =>
    parseChatRequest({ ...hello, response_format: { type } }).options.responseFormat;
  assert.deepEqual(formatOf("text"), { format: { case: "text", value: {} } });
  assert.deepEqual(formatOf("json_object"), { format: { case: "json", value: {} } });
});

test("instructions at the beginning are one prompt, in order; later ones stay where they are", () => {
  const { system, messages } = parseChatRequest({
    model: "m",
    messages: [
      { role: "system", content: "one" },
      { role: "developer", content: [{ type: "text", text: "two" }] },
      { role: "user", content: "hi" },
      { role: "developer", content: "three" },
    ],
  });
  assert.equal(system, "one\n\ntwo");
  assert.deepEqual(messages, [
    { role: "user", parts: [{ type: "text", text: "hi" }] },
    { role: "system", parts: [{ type: "text", text: "three" }] },
  ]);
});

test("instructions alone are a request of instructions alone", () => {
  const { system, messages } = parseChatRequest({
    model: "m",
    messages: [{ role: "system", content: "Sing" }],
  });
  assert.equal(system, "Sing");
  assert.deepEqual(messages, []);
});

test("assistant content may be null, empty, text or parts; what is not the model's is left behind", () => {
  const lineOf = (message: object) =>
    parseChatRequest({ model: "m", messages: [{ role: "assistant", ...message }] }).messages[0];
  const empty = { role: "assistant", text: "", reasoning: "", toolCalls: [] };
  assert.deepEqual(lineOf({ content: null }), empty);
  assert.deepEqual(lineOf({ content: "" }), empty);
  assert.deepEqual(lineOf({}), empty);
  assert.deepEqual(lineOf({ content: [] }), empty);
  const parts = [
    { type: "text", text: "a" },
    { type: "refusal", refusal: "no" },
    { type: "text", text: "b" },
  ];
  const extra = { refusal: "no", annotations: [], name: "x", parsed: {} };
  assert.deepEqual(lineOf({ content: parts, ...extra }), { ...empty, name: "x", text: "ab" });
  assert.deepEqual(lineOf({ content: "a", reasoning_content: "r" }), { ...empty, text: "a", reasoning: "r" });
  assert.deepEqual(lineOf({ content: "a", reasoning: "r" }), { ...empty, text: "a", reasoning: "r" });
  assert.deepEqual(lineOf({ tool_calls: [{ id: "1", function: { name: "f" } }] }), {
    ...empty,
    toolCalls: [{ id: "1", name: "f", args: "" }],
  });
});

test("images come as bytes; remote ones only when the operator allows it", () => {
  const url = `data:image/png;base64,${Buffer.from([1, 2, 3]).toString("base64")}`;
  const bodyOf = (content: unknown[]) => ({ model: "m", messages: [{ role: "user", content }] });
  const image = (url: string) => ({ type: "image_url", image_url: { url, detail: "low" } });
  assert.deepEqual(parseChatRequest(bodyOf([image(url)])).messages, [
    {
      role: "user",
      parts: [{ type: "file", mediaType: "image/png", bytes: new Uint8Array([1, 2, 3]), detail: "low" }],
    },
  ]);
  const remote = bodyOf([image("https://example.com/a.png")]);
  assert.equal(refused(remote).param, "messages[0].content[0].image_url.url");
  assert.deepEqual(parseChatRequest(remote, { allowRemoteImages: true }).messages, [
    {
      role: "user",
      parts: [{ type: "file", mediaType: "image/*", url: "https://example.com/a.png", detail: "low" }],
    },
  ]);
  for (const wrong of [
    "data:image/png,abc",
    "data:image/png;base64,@@",
    "data:image/png;base64,",
    "file:///etc/x",
  ]) {
    refused(bodyOf([image(wrong)]));
  }
  const result = { role: "tool", tool_call_id: "1", content: [{ type: "text", text: "t" }, image(url)] };
  assert.deepEqual(parseChatRequest({ model: "m", messages: [result] }).messages[0], {
    role: "tool",
    toolCallId: "1",
    text: "t",
    files: [{ type: "file", mediaType: "image/png", bytes: new Uint8Array([1, 2, 3]), detail: "low" }],
  });
});

test("a large image is read without trouble", () => {
  const data = Buffer.alloc(3_000_000, 7).toString("base64");
  const content = [{ type: "image_url", image_url: { url: `data:image/jpeg;base64,${data}` } }];
  const [message] = parseChatRequest({ model: "m", messages: [{ role: "user", content }] }).messages;
  const part = message?.role === "user" ? message.parts[0] : undefined;
  assert.ok(part?.type === "file" && "bytes" in part);
  assert.equal(part.bytes.length, 3_000_000);
});

test("what clients send to everybody is accepted and ignored, and named", () => {
  const ignored = { user: "u", metadata: { a: "b" }, store: true, service_tier: "auto", no_such_field: [1] };
  const harmless = { n: 1, logprobs: false, modalities: ["text"], audio: null, tools: null, stop: null };
  const { wishes, ...rest } = parseChatRequest({ ...hello, ...ignored, ...harmless });
  const { wishes: none, ...same } = parseChatRequest(hello);
  assert.deepEqual(rest, same);
  assert.deepEqual(none, { words: [], ignored: [] });
  assert.deepEqual(wishes, { words: [], ignored: Object.keys(ignored) });
});

test("what is wrong or cannot be done is refused, and the field is named", () => {
  const tool = { type: "function", function: { name: "f" } };
  const message = (given: object) => ({ model: "m", messages: [given] });
  const cases: readonly (readonly [unknown, string])[] = [
    [[], ""],
    [{ messages: [] }, "model"],
    [{ model: "m" }, "messages"],
    [{ model: "m", messages: [] }, "messages"],
    [{ model: "m", messages: ["x"] }, "messages[0]"],
    [{ model: "m", messages: Array.from({ length: 5001 }, () => hello.messages[0]) }, "messages"],
    [message({ content: "x" }), "messages[0].role"],
    [message({ role: "function", name: "f", content: "x" }), "messages[0].role"],
    [message({ role: "robot", content: "x" }), "messages[0].role"],
    [message({ role: "user" }), "messages[0].content"],
    [message({ role: "user", content: 7 }), "messages[0].content"],
    [message({ role: "user", content: [{ type: "input_audio" }] }), "messages[0].content[0].type"],
    [
      message({ role: "user", content: [{ type: "file", file: { file_id: "x" } }] }),
      "messages[0].content[0].file.file_id",
    ],
    [message({ role: "tool", content: "x" }), "messages[0].tool_call_id"],
    [message({ role: "assistant", function_call: {} }), "messages[0].function_call"],
    [
      message({ role: "assistant", tool_calls: [{ id: "1", type: "custom" }] }),
      "messages[0].tool_calls[0].type",
    ],
    [
      message({ role: "assistant", tool_calls: [{ function: { name: "f" } }] }),
      "messages[0].tool_calls[0].id",
    ],
    [{ ...hello, n: 2 }, "n"],
    [{ ...hello, logprobs: true }, "logprobs"],
    [{ ...hello, audio: { voice: "x" } }, "audio"],
    [{ ...hello, modalities: ["text", "audio"] }, "modalities"],
    [{ ...hello, functions: [] }, "functions"],
    [{ ...hello, tools: [{ type: "web_search" }] }, "tools[0].type"],
    [{ ...hello, tools: [{ type: "function", function: { name: "a b" } }] }, "tools[0].function.name"],
    [
      { ...hello, tools: [{ type: "function", function: { name: "f", parameters: 1 } }] },
      "tools[0].function.parameters",
    ],
    [{ ...hello, tools: [tool, tool] }, "tools"],
    [
      { ...hello, tools: Array.from({ length: 513 }, (_, at) => ({ function: { name: `f${at}` } })) },
      "tools",
    ],
    [{ ...hello, tool_choice: "required" }, "tool_choice"],
    [{ ...hello, tools: [tool], tool_choice: "always" }, "tool_choice"],
    [{ ...hello, tools: [tool], tool_choice: { type: "function", function: { name: "g" } } }, "tool_choice"],
    [{ ...hello, tools: [tool], tool_choice: { type: "allowed_tools" } }, "tool_choice.type"],
    [{ ...hello, response_format: { type: "xml" } }, "response_format.type"],
    [{ ...hello, response_format: { type: "json_schema" } }, "response_format.json_schema"],
    [{ ...hello, stop: ["1", "2", "3", "4", "5"] }, "stop"],
    [{ ...hello, stop: [1] }, "stop"],
    [{ ...hello, temperature: 3 }, "temperature"],
    [{ ...hello, temperature: "hot" }, "temperature"],
    [{ ...hello, max_tokens: 0 }, "max_tokens"],
    [{ ...hello, seed: 1.5 }, "seed"],
    [{ ...hello, stream: "yes" }, "stream"],
  ];
  for (const [body, param] of cases)
    assert.equal(refused(body).param, param, JSON.stringify(body).slice(0, 200));
});

test("names like __proto__ in a body are nothing special", () => {
  const body: unknown = JSON.parse('{"__proto__":{"model":"m"},"messages":[{"role":"user","content":"x"}]}');
  assert.equal(refused(body).param, "model");
});
