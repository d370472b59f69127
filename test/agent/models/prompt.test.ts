/** The conversation as each provider is told it: nothing invented, and nothing that the provider refuses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LanguageModelV4Prompt } from "@ai-sdk/provider";
import { ModelFailure } from "../../../src/agent/model.ts";
import type { Dialect } from "../../../src/agent/models/dialect.ts";
import { promptOf } from "../../../src/agent/models/prompt.ts";
import type { AssistantChatMessage, ChatMessage } from "../../../src/protocol/chat-message.ts";

const user: ChatMessage = { role: "user", content: [{ type: "text", text: "go on" }] };
const prompt = (messages: readonly ChatMessage[], dialect: Dialect, system = "") =>
  promptOf({ system, messages, file: async () => new Uint8Array() }, dialect);
const said = (role: "user" | "system" | "assistant", ...texts: readonly string[]): ChatMessage => ({
  role,
  content: texts.map((text) => ({ type: "text", text })),
});
/** Roles and texts; the mark of a call's arguments is the same in one process. */
const words = (told: LanguageModelV4Prompt): readonly unknown[] =>
  told.map(({ role, content }) => [
    role,
    typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : part)),
  ]);

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

test("a thought without a signature, or of another model, does not go back; nor do marks of another model's words", async () => {
  const words = { type: "text", text: "so" } as const;
  const reasons = async (content: AssistantChatMessage["content"], dialect: "openai" | "anthropic") => {
    const call = { system: "", messages: [user, { role: "assistant", content } as const, user] };
    const all = await promptOf({ ...call, file: async () => new Uint8Array() }, dialect, "acme/one");
    return all.flatMap((message) => (message.role === "assistant" ? message.content : []));
  };
  for (const dialect of ["openai", "anthropic"] as const) {
    const by = (model: string) => ({ [dialect]: { signature: "s" }, holdfast: { model } });
    const own = { type: "reasoning", text: "hm", providerMetadata: by("acme/one") } as const;
    const unmarked = { ...own, providerMetadata: { [dialect]: { signature: "s" } } };
    const other = { ...own, providerMetadata: by("acme/two") };
    const call = { type: "tool-call", toolCallId: "c", tool: "t", args: "{}" } as const;
    const told = await reasons(
      [
        { type: "reasoning", text: "plain" },
        other,
        own,
        unmarked,
        words,
        { ...call, providerMetadata: by("acme/two") },
      ],
      dialect,
    );
    assert.deepEqual(
      told.map(({ type, providerOptions }) => [type, providerOptions]),
      [
        ["reasoning", { [dialect]: { signature: "s" } }],
        ["reasoning", { [dialect]: { signature: "s" } }],
        ["text", undefined],
        ["tool-call", undefined],
      ],
      dialect,
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

test("consecutive, trailing and blank messages stay as they are where the provider takes them", async () => {
  const messages = [
    said("user", ""),
    said("assistant", "Well."),
    said("assistant", "And so."),
    said("user", "a", "\n\n", "b"),
    said("assistant", "Yes"),
  ];
  const asTheyAre = [
    ["user", [""]],
    ["assistant", ["Well."]],
    ["assistant", ["And so."]],
    ["user", ["a", "\n\n", "b"]],
    ["assistant", ["Yes"]],
  ];
  for (const dialect of ["openai", "openai-compatible", "google"] as const)
    assert.deepEqual(words(await prompt(messages, dialect)), asTheyAre, dialect);
});

test("Anthropic refuses blank texts: they are joined to the words beside them, or left out with their message", async () => {
  const messages = [
    said("user", ""),
    said("user", "\n", "a", " ", "b"),
    said("assistant", "x", "\n\n"),
    said("assistant", "  "),
    said("user", "c"),
  ];
  assert.deepEqual(words(await prompt(messages, "anthropic")), [
    ["user", ["\na ", "b"]],
    ["assistant", ["x\n\n"]],
    ["user", ["c"]],
  ]);
  // The last one is for Anthropic to refuse: the client hears why.
  assert.deepEqual(words(await prompt([said("user", " ")], "anthropic")), [["user", [" "]]]);
});

test("of a client's cache marks the last three hold, since Anthropic takes four with the system prompt's", async () => {
  const marked = (text: string): ChatMessage => ({
    role: "user",
    content: [{ type: "text", text, cacheControl: { type: "ephemeral" } }],
  });
  const all = await prompt(["a", "b", "c", "d", "e"].map(marked), "anthropic", "Be brief.");
  const marks = all.flatMap(({ role, content, providerOptions }): readonly unknown[] =>
    role === "user"
      ? content.map((part) => part.providerOptions?.["anthropic"]?.["cacheControl"])
      : [providerOptions?.["anthropic"]?.["cacheControl"]],
  );
  assert.deepEqual(
    marks.map((mark) => mark !== undefined),
    [true, false, false, true, true, true],
  );
});

test("instructions in the middle stay there; Google takes them only at the beginning", async () => {
  const messages = [said("user", "a"), said("system", "Be brief."), said("user", "b")];
  for (const dialect of ["openai", "openai-compatible", "anthropic"] as const) {
    assert.deepEqual(words(await prompt(messages, dialect, "You are terse.")), [
      ["system", "You are terse."],
      ["user", ["a"]],
      ["system", "Be brief."],
      ["user", ["b"]],
    ]);
  }
  assert.deepEqual(words(await prompt(messages, "google", "You are terse.")), [
    ["system", "You are terse.\n\nBe brief."],
    ["user", ["a"]],
    ["user", ["b"]],
  ]);
});

test("of several texts of the user only the empty ones are left out, and a lone empty one stays", async () => {
  assert.deepEqual(words(await prompt([said("user", "", "words")], "openai")), [["user", ["words"]]]);
  assert.deepEqual(words(await prompt([said("user", "", "")], "openai")), [["user", [""]]]);
});
