/** What providers refuse, put right before they see it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure } from "../../../src/agent/model.ts";
import { promptOf } from "../../../src/agent/models/prompt.ts";
import type { AssistantChatMessage, ChatMessage } from "../../../src/protocol/chat-message.ts";

const user: ChatMessage = { role: "user", content: [{ type: "text", text: "go on" }] };
const prompt = (messages: readonly ChatMessage[], dialect: "openai" | "anthropic") =>
  promptOf({ system: "", messages, file: async () => new Uint8Array() }, dialect);

/** What is left of an assistant message between two of the user's. */
async function told(content: AssistantChatMessage["content"], dialect: "openai" | "anthropic") {
  const all = await prompt([user, { role: "assistant", content }, user], dialect);
  return all.flatMap((message) => (message.role === "assistant" ? message.content : []));
}

test("a thought that led to nothing does not go back: an answer must not end with one", async () => {
  const thought = (name: string) =>
    ({ type: "reasoning", text: "hm", providerMetadata: { [name]: { signature: "s" } } }) as const;
  for (const dialect of ["openai", "anthropic"] as const) {
    assert.deepEqual(await told([thought(dialect)], dialect), []);
    const kept = await told([thought(dialect), { type: "text", text: "so" }, thought(dialect)], dialect);
    assert.deepEqual(
      kept.map(({ type }) => type),
      ["reasoning", "text"],
    );
  }
});

test("an empty text goes back only to whoever signed it", async () => {
  const empty = { type: "text", text: "", providerMetadata: { openai: { itemId: "m" } } } as const;
  assert.equal((await told([empty], "openai")).length, 1);
  assert.equal((await told([empty], "anthropic")).length, 0);
});

test("half a character in a call's arguments is not sent", async () => {
  const args = '{"path":"a\\ud83d","list":["\\ude00"]}';
  const [call] = await told([{ type: "tool-call", toolCallId: "c", tool: "read", args }], "openai");
  assert.ok(call?.type === "tool-call");
  assert.deepEqual(call.input, { path: "a\ufffd", list: ["\ufffd"] });
});

test("an address that is none is the request's fault", async () => {
  const file = { type: "file", mediaType: "image/png", url: "nowhere" } as const;
  await assert.rejects(
    prompt([{ role: "user", content: [file] }], "openai"),
    (error) => error instanceof ModelFailure && error.kind === "invalid_request",
  );
});
