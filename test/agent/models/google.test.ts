import assert from "node:assert/strict";
import { test } from "node:test";
import { messageOf, resultsOf, TOOLS } from "./conversation.ts";
import { API_KEY, events, type Fields, listOf, partsOf, ProviderServer, user } from "./providers/server.ts";

const say = (parts: readonly object[], more: object = {}) => ({
  candidates: [{ content: { role: "model", parts }, ...more }],
  usageMetadata: {
    promptTokenCount: 50,
    cachedContentTokenCount: 40,
    candidatesTokenCount: 5,
    thoughtsTokenCount: 3,
  },
});

const WORKING = events(
  say([{ text: "look first", thought: true }]),
  say([{ text: "Reading." }]),
  say([{ functionCall: { name: "read", args: { path: "a.txt" } }, thoughtSignature: "SIGNATURE==" }]),
  say([{ functionCall: { name: "shell", args: { path: "b" } } }]),
  say([], { finishReason: "STOP" }),
);

const contentsOf = (server: ProviderServer, at: number): readonly Fields[] =>
  listOf(server.asked[at]?.body["contents"]);

test("thoughts, text and parallel tool calls come through, with cached and reasoning tokens", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const parts = await partsOf(server.model("google"), { tools: TOOLS });
  const thoughts = parts.flatMap((part) => (part.kind === "thinking" ? [part.text] : []));
  assert.deepEqual(thoughts, ["look first"]);
  const calls = parts.flatMap((part) => (part.kind === "tool_call" ? [part] : []));
  assert.deepEqual(
    calls.map(({ tool, args }) => [tool, args]),
    [
      ["read", '{"path":"a.txt"}'],
      ["shell", '{"path":"b"}'],
    ],
  );
  assert.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, 2);
  assert.deepEqual(parts.at(-1), {
    kind: "finish",
    reason: "tool_calls",
    usage: { inputTokens: 10, outputTokens: 8, cacheReadTokens: 40, cacheWriteTokens: 0, reasoningTokens: 3 },
  });
  assert.equal(server.asked[0]?.headers["x-goog-api-key"], API_KEY);
  assert.match(server.asked[0]?.path ?? "", /test-model:streamGenerateContent/);
});

test("the signature of a tool call goes back unchanged, and each request begins with the one before", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const model = server.model("google");
  const messages = [user("hello")];
  for (let step = 0; step < 3; step++) {
    const parts = await partsOf(model, { messages, tools: TOOLS });
    messages.push(messageOf(parts), resultsOf(parts));
  }
  const [first, second, third] = [0, 1, 2].map((at) => contentsOf(server, at));
  assert.ok(JSON.stringify(second).startsWith(JSON.stringify(first).slice(0, -1)));
  assert.ok(JSON.stringify(third).startsWith(JSON.stringify(second).slice(0, -1)));
  assert.match(
    JSON.stringify(second),
    /"name":"read","args":\{"path":"a.txt"\}\},"thoughtSignature":"SIGNATURE=="/,
  );
});
