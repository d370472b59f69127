/**
 * What a request of Anthropic's own form asks of an Anthropic model, as Anthropic is told it; and that no other provider is told.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import type { ChatMessage } from "../../../src/protocol/chat-message.ts";
import { StepOptionsSchema } from "../../../src/protocol/messages.ts";
import { ANTHROPIC, CHAT } from "./providers/formats.ts";
import { events, type Fields, listOf, partsOf, ProviderServer, user } from "./providers/server.ts";

const SAID = { text: "Done." };
const anthropic = events(...ANTHROPIC.frames(SAID).map(({ data }) => data));
const chat = events(...CHAT.frames(SAID).map(({ data }) => data));

const optionsOf = (own: object, more: object = {}) =>
  create(StepOptionsSchema, { anthropicJson: JSON.stringify(own), ...more });

const LONG = { type: "ephemeral", ttl: "1h" };

/** The marks of a request: of its system prompt, and of each of its messages. */
function marksOf({ body }: { readonly body: Fields }): readonly unknown[] {
  const marks = (parts: unknown): readonly unknown[] =>
    listOf(parts).flatMap((part) => ("cache_control" in part ? [part["cache_control"]] : []));
  return [marks(body["system"]), ...listOf(body["messages"]).map(({ content }) => marks(content))];
}

test("thinking and the user's id go to Anthropic in its words; the tokens for thoughts are part of those allowed", async (t) => {
  const server = await ProviderServer.start(t, anthropic, anthropic, anthropic);
  const model = server.model("anthropic");
  const own = { thinking: { type: "enabled", budget_tokens: 2_000 }, user_id: "u" };
  await partsOf(model, { messages: [user("hi")], options: optionsOf(own, { maxOutputTokens: 5_000 }) });
  await partsOf(model, {
    messages: [user("hi")],
    options: optionsOf({ thinking: { type: "adaptive", display: "omitted" } }),
  });
  await partsOf(model, { messages: [user("hi")], options: optionsOf({ thinking: { type: "newest" } }) });
  const [first, second, third] = server.asked.map(({ body }) => body);
  assert.deepEqual(first?.["thinking"], { type: "enabled", budget_tokens: 2_000 });
  assert.deepEqual([first?.["max_tokens"], first?.["metadata"]], [5_000, { user_id: "u" }]);
  assert.deepEqual(second?.["thinking"], { type: "adaptive", display: "omitted" });
  assert.equal(third?.["thinking"], undefined, "the SDK would refuse a word that it does not know");
});

const TURN: readonly ChatMessage[] = [
  { role: "user", content: [{ type: "text", text: "hi", cacheControl: LONG }] },
  { role: "assistant", content: [{ type: "tool-call", toolCallId: "a", tool: "read", args: "{}" }] },
  {
    role: "tool",
    content: [{ type: "tool-result", toolCallId: "a", tool: "read", outcome: "done", text: "x" }],
  },
];

test("a client's mark at the end of the prompt holds there, where a tool's result stands, with its time", async (t) => {
  const server = await ProviderServer.start(t, anthropic, anthropic, anthropic);
  const model = server.model("anthropic");
  const marks = { system_cache_control: LONG, end_cache_control: LONG };
  await partsOf(model, { system: "S", messages: TURN, options: optionsOf(marks) });
  await partsOf(model, { system: "S", messages: TURN });
  await partsOf(model, { system: "S", messages: [user("hi"), ...TURN.slice(1)], options: optionsOf(marks) });
  const [marked, stale, own] = server.asked.map(marksOf);
  assert.deepEqual(marked, [[LONG], [LONG], [], [LONG]]);
  assert.deepEqual(
    stale,
    [[{ type: "ephemeral" }], [LONG], [], []],
    "the marks of a client hold as they stand",
  );
  assert.deepEqual(own, [[LONG], [LONG], [], [LONG]], "the end, and the end of the prompt before");
});

test("no other provider is told any of it", async (t) => {
  const server = await ProviderServer.start(t, chat);
  const own = { thinking: { type: "enabled", budget_tokens: 2_000 }, user_id: "u", end_cache_control: LONG };
  await partsOf(server.model("openai-compatible"), {
    messages: [user("hi")],
    options: optionsOf(own, { maxOutputTokens: 5_000 }),
  });
  const [asked] = server.asked;
  assert.equal(asked?.body["max_tokens"], 5_000);
  assert.doesNotMatch(JSON.stringify(asked?.body), /thinking|user_id|ephemeral/);
});
