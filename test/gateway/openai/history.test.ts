/**
 * A request's messages as history and as what is new; and the form that feeds models.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  type LineFile,
  type LineMessage,
  splitRequest,
  toChatMessages,
} from "../../../src/gateway/openai/index.ts";
import { decodeChatMessage, encodeChatMessage } from "../../../src/protocol/chat-message.ts";

const user = (text: string) => ({ role: "user", parts: [{ type: "text", text }] }) as const;
const tool = (toolCallId: string, text: string, files: readonly LineFile[] = []) =>
  ({ role: "tool", toolCallId, text, files }) as const;
const assistant = (text: string, ...ids: readonly string[]) => {
  const toolCalls = ids.map((id) => ({ id, name: `tool-${id}`, args: `{"n":"${id}"}` }));
  return { role: "assistant", text, reasoning: "", toolCalls } as const;
};

const said = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const called = (id: string) => ({
  type: "tool-call",
  toolCallId: id,
  tool: `tool-${id}`,
  args: `{"n":"${id}"}`,
});
const done = (id: string, text: string) => {
  return { type: "tool-result", toolCallId: id, tool: `tool-${id}`, outcome: "done", text };
};

test("a request is what was before, the results, and what the user says", () => {
  const before = [user("one"), assistant("", "a", "b")];
  const results = [tool("b", "2"), tool("a", "1")];
  assert.deepEqual(splitRequest([...before, ...results]), { history: before, results, said: [] });
  assert.deepEqual(splitRequest([...before, ...results, user("and")]), {
    history: before,
    results,
    said: [user("and")],
  });
  assert.deepEqual(splitRequest([user("one")]), { history: [], results: [], said: [user("one")] });
  assert.deepEqual(splitRequest(before), { history: before, results: [], said: [] });
});

test("several messages in a row stay several, each as it was said", () => {
  const system = { role: "system", parts: [{ type: "text", text: "Be brief." }] } as const;
  const tail = [user("one"), system, user("two")];
  const { said: heard, history } = splitRequest([assistant("hi"), ...tail]);
  assert.equal(history.length, 1);
  assert.deepEqual(heard, tail);
  assert.deepEqual(toChatMessages(tail).history, [
    said("one"),
    { role: "system", content: [{ type: "text", text: "Be brief." }] },
    said("two"),
  ]);
});

test("what a client wants its provider to know goes along with the words", () => {
  const cacheControl = { type: "ephemeral" };
  const url = "https://example.com/a.png";
  const { history } = toChatMessages([
    { role: "user", name: "ann", parts: [{ type: "text", text: "a", cacheControl }] },
    { role: "user", parts: [{ type: "file", mediaType: "image/png", url, detail: "low", cacheControl }] },
    { ...assistant("b"), name: "bot" },
  ]);
  assert.deepEqual(history, [
    { role: "user", name: "ann", content: [{ type: "text", text: "a", cacheControl }] },
    {
      role: "user",
      content: [{ type: "file", mediaType: "image/png", url, detail: "low", cacheControl }],
    },
    { role: "assistant", name: "bot", content: [{ type: "text", text: "b" }] },
  ]);
  for (const message of history) assert.deepEqual(decodeChatMessage(encodeChatMessage(message)), message);
});

test("results stand behind their assistant message, in the order of the calls", () => {
  const { history } = toChatMessages([
    user("one"),
    { ...assistant("let me see", "a", "b"), reasoning: "hm" },
    tool("b", "2"),
    tool("a", "1"),
    assistant("so"),
  ]);
  assert.deepEqual(history, [
    said("one"),
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "hm" },
        { type: "text", text: "let me see" },
        called("a"),
        called("b"),
      ],
    },
    { role: "tool", content: [done("a", "1"), done("b", "2")] },
    { role: "assistant", content: [{ type: "text", text: "so" }] },
  ]);
});

test("a call without a result is told as unknown, a result without a call in words", () => {
  const { history } = toChatMessages([
    tool("z", "old"),
    assistant("", "a", "b"),
    user("wait"),
    tool("b", "2"),
  ]);
  const [orphan, calls, results, after] = history;
  assert.deepEqual(orphan, said("The result of an earlier tool call (z):\nold"));
  assert.deepEqual(calls, { role: "assistant", content: [called("a"), called("b")] });
  assert.ok(results?.role === "tool");
  assert.deepEqual(
    results.content.map(({ toolCallId, outcome }) => [toolCallId, outcome]),
    [
      ["a", "unknown"],
      ["b", "done"],
    ],
  );
  assert.deepEqual(after, said("wait"));
});

test("ids that repeat in every step belong to their own step", () => {
  const { history } = toChatMessages([
    assistant("", "0"),
    tool("0", "first"),
    assistant("", "0"),
    tool("0", "second"),
  ]);
  assert.deepEqual(
    history.filter(({ role }) => role === "tool").map(({ content }) => content),
    [[done("0", "first")], [done("0", "second")]],
  );
});

test("a result that came twice counts once; two different ones are both kept", () => {
  const { history } = toChatMessages([
    assistant("", "a", "b"),
    tool("a", "1"),
    tool("a", "1"),
    tool("b", "2"),
    tool("b", "3"),
  ]);
  assert.deepEqual(history[1], { role: "tool", content: [done("a", "1"), done("b", "2\n3")] });
});

test("files are named by their blob ids, and their bytes are given along, once", () => {
  const bytes = new Uint8Array([1, 2, 3]);
  const blobId = createHash("sha256").update(bytes).digest("hex");
  const file = { type: "file", mediaType: "image/png", bytes } as const;
  const remote = { type: "file", mediaType: "image/*", url: "https://example.com/x.png" } as const;
  const { history, files } = toChatMessages([
    { role: "user", parts: [{ type: "text", text: "look" }, file, remote] },
    assistant("", "a"),
    tool("a", "seen", [file]),
  ]);
  const named = { type: "file", mediaType: "image/png", blobId };
  assert.deepEqual(history[0], { role: "user", content: [{ type: "text", text: "look" }, named, remote] });
  assert.deepEqual(history[2], { role: "tool", content: [{ ...done("a", "seen"), files: [named] }] });
  assert.deepEqual([...files], [[blobId, bytes]]);
});

test("empty arguments become an empty object", () => {
  const line: LineMessage = {
    role: "assistant",
    text: "",
    reasoning: "",
    toolCalls: [{ id: "a", name: "f", args: " " }],
  };
  const [message] = toChatMessages([line]).history;
  assert.deepEqual(message?.content, [{ type: "tool-call", toolCallId: "a", tool: "f", args: "{}" }]);
});

test("whatever order a client sends: every call has one result behind it, every word is kept, and all of it can be read", () => {
  const ids = ["a", "b", "c"];
  const line = fc.oneof(
    fc.constantFrom("u1", "u2").map((text): LineMessage => user(text)),
    fc.subarray(ids).map((called): LineMessage => assistant("said", ...called)),
    fc
      .tuple(fc.constantFrom(...ids), fc.constantFrom("r1", "r2"))
      .map(([id, text]): LineMessage => tool(id, text)),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 12 }), (messages) => {
      const { history } = toChatMessages(messages);
      const text = JSON.stringify(history);
      for (const message of messages) {
        if (message.role === "tool") assert.ok(text.includes(message.text));
      }
      for (const [at, message] of history.entries()) {
        assert.deepEqual(decodeChatMessage(encodeChatMessage(message)), message);
        if (message.role !== "assistant") continue;
        const calls = message.content
          .filter((part) => part.type === "tool-call")
          .map((part) => part.toolCallId);
        const next = history[at + 1];
        const results = next?.role === "tool" ? next.content.map(({ toolCallId }) => toolCallId) : [];
        assert.deepEqual(results, calls);
      }
      const count = (role: string) => messages.filter((message) => message.role === role).length;
      assert.equal(history.filter(({ role }) => role === "assistant").length, count("assistant"));
    }),
  );
});
