/**
 * Bodies of `POST /v1/messages`: what becomes of each kind of block, tool and option, what is left out, and what is refused.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../src/protocol/chat-message.ts";
import { ToolChoiceMode } from "../../../src/protocol/messages.ts";
import {
  type AnswerRequest,
  GatewayError,
  lineageOf,
  type LineMessage,
  systemHash,
  toolsHash,
} from "../../../src/gateway/openai/index.ts";
import { parseMessageRequest } from "../../../src/gateway/messages/index.ts";

const parse = (body: JsonObject, allowRemoteImages = false): AnswerRequest =>
  parseMessageRequest({ model: "m", max_tokens: 10, messages: [], ...body }, { allowRemoteImages });

const linesOf = (...messages: readonly JsonObject[]): readonly LineMessage[] => parse({ messages }).messages;
const user = (content: JsonObject[string]): JsonObject => ({ role: "user", content });
const said = (...content: readonly JsonObject[]): JsonObject => ({ role: "assistant", content });
const text = (words: string, more: JsonObject = {}): JsonObject => ({ type: "text", text: words, ...more });
const use = (id: string, input: JsonObject = {}): JsonObject => ({
  type: "tool_use",
  id,
  name: "note",
  input,
});
const result = (id: string, content: JsonObject[string], more: JsonObject = {}): JsonObject => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  ...more,
});
const MARK = { cache_control: { type: "ephemeral", ttl: "1h" } };

function refusal(body: JsonObject): string {
  try {
    parse(body);
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    return `${error.status} ${error.param} ${error.code}`;
  }
  return assert.fail("it is accepted");
}

test("system is a text or blocks; messages of that role come behind it, or stay where they are", () => {
  const { system, messages } = parse({
    system: [text("x-anthropic-billing-header: a=1;"), text("Be brief.", MARK), text("")],
    messages: [
      { role: "system", content: "No jokes." },
      user("hello"),
      { role: "system", content: [text("Now in French.")] },
    ],
  });
  assert.equal(system, "Be brief.\n\nNo jokes.");
  assert.deepEqual(messages, [
    { role: "user", parts: [{ type: "text", text: "hello" }] },
    { role: "system", parts: [{ type: "text", text: "Now in French." }] },
  ]);
  assert.equal(parse({ system: "Be brief." }).system, "Be brief.");
});

test("results are lines of their own wherever they stand among the user's words", () => {
  const [, one, two, words] = linesOf(
    said(use("a"), use("b")),
    user([
      text("first "),
      result("b", [text("two"), text("lines")]),
      text("then"),
      result("a", "no", { is_error: true }),
    ]),
  );
  assert.deepEqual(one, { role: "tool", toolCallId: "b", text: "two\nlines", files: [] });
  assert.deepEqual(two, { role: "tool", toolCallId: "a", text: "no", files: [], isError: true });
  assert.deepEqual(words, {
    role: "user",
    parts: [
      { type: "text", text: "first " },
      { type: "text", text: "then" },
    ],
  });
  assert.equal(linesOf(said(use("a")), user([result("a", "yes")])).length, 2, "no words, no line");
});

test("what clients change between two requests makes no difference to the lineage", () => {
  const first = linesOf(user([text("Make it.", MARK)]), { role: "system", content: [text("Here.", MARK)] });
  const again = linesOf(user("Make it."), { role: "system", content: "Here." });
  assert.deepEqual(lineageOf(first), lineageOf(again));
  const history = (thoughts: readonly JsonObject[], input: JsonObject, content: JsonObject[string]) =>
    lineageOf(linesOf(user("Make it."), said(...thoughts, text("I do."), use("a", input)), user(content)));
  assert.deepEqual(
    history([{ type: "thinking", thinking: "Hm.", signature: "s" }], { a: 1, b: 2 }, [
      result("a", "made", { is_error: false }),
    ]),
    history([], { b: 2, a: 1 }, [result("a", [text("made", MARK)], MARK)]),
  );
  assert.notDeepEqual(
    history([], { a: 1 }, [result("a", "made")]),
    history([], { a: 2 }, [result("a", "made")]),
  );
  const bare = parse({ system: [text("x-anthropic-billing-header: a=1;"), text("S", MARK)] });
  assert.equal(systemHash(bare.system), systemHash(parse({ system: "S" }).system));
  const tool = { name: "note", input_schema: { type: "object" } };
  assert.equal(
    toolsHash(parse({ tools: [{ ...tool, ...MARK }] }).tools),
    toolsHash(parse({ tools: [tool] }).tools),
  );
});

test("images, documents and search results reach the model; a document's title is its name", () => {
  const data = Buffer.from("%PDF").toString("base64");
  const pdf = { type: "base64", media_type: "application/pdf", data };
  const [line] = linesOf(
    user([
      { type: "image", source: { type: "base64", media_type: "image/png", data }, ...MARK },
      { type: "document", source: pdf, title: "a.pdf" },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "words" } },
      { type: "document", source: { type: "content", content: [text("inside")] } },
      { type: "search_result", title: "T", source: "S", content: [text("found")] },
    ]),
  );
  const bytes = new Uint8Array(Buffer.from("%PDF"));
  assert.deepEqual(line, {
    role: "user",
    parts: [
      { type: "file", mediaType: "image/png", bytes, cacheControl: MARK.cache_control },
      { type: "file", mediaType: "application/pdf", bytes, fileName: "a.pdf" },
      { type: "file", mediaType: "text/plain", bytes: new TextEncoder().encode("words") },
      { type: "text", text: "inside" },
      { type: "text", text: "T (S)\nfound" },
    ],
  });
});

test("an address is passed on only where that is allowed, and an upload never", () => {
  const image = (source: JsonObject): JsonObject => ({ messages: [user([{ type: "image", source }])] });
  const remote = image({ type: "url", url: "https://example.com/a.png" });
  assert.equal(refusal(remote), "400 messages[0].content[0].source.url unsupported_value");
  const [line] = parse(remote, true).messages;
  assert.deepEqual(line, {
    role: "user",
    parts: [{ type: "file", mediaType: "image/*", url: "https://example.com/a.png" }],
  });
  assert.equal(
    refusal(image({ type: "file", file_id: "f" })),
    "400 messages[0].content[0].source.type unsupported_value",
  );
  assert.equal(
    refusal(image({ type: "base64", media_type: "image/png", data: "!" })),
    "400 messages[0].content[0].source.data null",
  );
});

test("members, tools and blocks that no model here is given are left out and named, never refused", () => {
  const { wishes, tools, messages, options } = parse({
    context_management: { edits: [] },
    output_config: { effort: "high", task_budget: {} },
    mcp_servers: [],
    service_tier: null,
    tools: [
      { type: "web_search_20250305", name: "web_search" },
      { name: "note", input_schema: { type: "object" }, defer_loading: true, ...MARK },
      { type: "custom", name: "other", input_schema: { type: "object" } },
    ],
    tool_choice: { type: "tool", name: "web_search" },
    messages: [
      user([text("hi"), { type: "container_upload", file_id: "f" }]),
      said({ type: "server_tool_use" }),
    ],
  });
  assert.deepEqual(wishes.ignored.toSorted(), [
    "content.container_upload",
    "content.server_tool_use",
    "context_management",
    "mcp_servers",
    "output_config.task_budget",
    "tool_choice",
    "tools.cache_control",
    "tools.defer_loading",
    "tools.web_search_20250305",
  ]);
  assert.deepEqual(
    tools.map(({ name }) => name),
    ["note", "other"],
  );
  assert.equal(messages.length, 1);
  assert.equal(options.toolChoice, undefined);
});

test("options: each has its place, and what Anthropic alone is given travels apart", () => {
  const { options, wishes, includeUsage } = parse({
    system: [text("S", MARK)],
    messages: [user([text("old", MARK)]), said(use("a")), user([result("a", "made", MARK)])],
    tools: [{ name: "note", input_schema: { type: "object" } }],
    tool_choice: { type: "any", disable_parallel_tool_use: true },
    stop_sequences: ["END", ""],
    temperature: 1,
    top_p: 0.5,
    top_k: 3,
    thinking: { type: "enabled", budget_tokens: 2_000 },
    metadata: { user_id: "u" },
    stream: true,
  });
  const { anthropicJson, ...plain } = options;
  assert.deepEqual(plain, {
    toolChoice: { choice: { case: "mode", value: ToolChoiceMode.REQUIRED } },
    stop: ["END"],
    temperature: 1,
    topP: 0.5,
    topK: 3,
    maxOutputTokens: 10,
    parallelToolCalls: false,
    shownIsFinal: true,
  });
  assert.deepEqual(JSON.parse(anthropicJson ?? ""), {
    thinking: { type: "enabled", budget_tokens: 2_000 },
    user_id: "u",
    system_cache_control: MARK.cache_control,
    end_cache_control: MARK.cache_control,
  });
  assert.deepEqual(wishes, {
    words: ["stop", "top_k", "parallel_tool_calls", "thinking", "metadata.user_id", "cache_control"],
    ignored: [],
  });
  assert.equal(includeUsage, true);
});

test("tool_choice: auto, any, none and one tool; any without tools is left out", () => {
  const tools = [{ name: "note", input_schema: { type: "object" } }];
  const choice = (tool_choice: JsonObject, more: JsonObject = { tools }) =>
    parse({ tool_choice, ...more }).options.toolChoice?.choice;
  assert.deepEqual(choice({ type: "auto" }), { case: "mode", value: ToolChoiceMode.AUTO });
  assert.deepEqual(choice({ type: "none" }), { case: "mode", value: ToolChoiceMode.NONE });
  assert.deepEqual(choice({ type: "tool", name: "note" }), { case: "tool", value: "note" });
  assert.equal(choice({ type: "any" }, {}), undefined);
  assert.equal(refusal({ tools, tool_choice: { type: "maybe" } }), "400 tool_choice.type null");
});

test("what cannot be meant is refused with the name of the field", () => {
  assert.equal(refusal({ messages: [{ role: "owner", content: "hi" }] }), "400 messages[0].role null");
  assert.equal(refusal({ messages: "hi" }), "400 messages null");
  assert.equal(refusal({ messages: [user(7)] }), "400 messages[0].content null");
  assert.equal(refusal({ messages: [said(use("a"), use("a"))] }), "400 messages[0].content null");
  assert.equal(refusal({ tools: [{ name: "a b" }] }), "400 tools[0].name null");
  assert.equal(refusal({ max_tokens: 0 }), "400 max_tokens null");
});
