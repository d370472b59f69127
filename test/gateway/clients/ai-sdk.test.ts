/**
 * The AI SDK against `holdfast serve`: over both of its providers that speak chat completions, and over Responses.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, type LanguageModel, type ModelMessage, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Said } from "../../agent/models/providers/formats.ts";
import { bySteps, openaiProvider } from "../../agent/models/providers/scripted.ts";
import { NOTE, noteArgs, Notes } from "./note-tool.ts";
import {
  assertEachExtendsTheOneBefore,
  LOCAL,
  REHEARSAL,
  type ServedGateway,
  serveGateway,
} from "./served-gateway.ts";

type ModelOf = (gateway: ServedGateway, model: string) => LanguageModel;

const PROVIDERS: Readonly<Record<string, ModelOf>> = {
  "@ai-sdk/openai-compatible": ({ baseURL, apiKey }, model) =>
    createOpenAICompatible({ name: "gw", baseURL, apiKey, includeUsage: true })(model),
  "@ai-sdk/openai .chat": ({ baseURL, apiKey }, model) => createOpenAI({ baseURL, apiKey }).chat(model),
  // Its default: Responses, with earlier items as references.
  "@ai-sdk/openai": ({ baseURL, apiKey }, model) => createOpenAI({ baseURL, apiKey })(model),
};

const toolsFor = (notes: Notes) => ({
  note: tool({ description: NOTE.description, inputSchema: noteArgs, execute: (args) => notes.add(args) }),
});

/** Two at once, then one more. */
const notesInto = (file: string, other: string): readonly Said[] => [
  {
    thinking: "Two at once.",
    text: "Two first.",
    calls: [
      { name: "note", args: { file, text: "one" } },
      { name: "note", args: { text: "two", file: other } },
    ],
  },
  { calls: [{ name: "note", args: { file, text: "three" } }] },
  { text: "All three are written." },
];

const SCRIPT = bySteps({
  "Write a and b.": notesInto("a.txt", "b.txt"),
  "Write c and d.": notesInto("c.txt", "d.txt"),
  "Thanks.": [{ text: "You are welcome." }],
});

const REHEARSED = [
  'call note {"file": "e.txt", "text": "one"}',
  'call note {"file": "f.txt", "text": "two"}',
  "then",
  'call note {"file": "e.txt", "text": "three"}',
  "then",
  "say All three are written.",
].join("\n");

const user = (content: string): ModelMessage => ({ role: "user", content });

for (const [name, modelOf] of Object.entries(PROVIDERS)) {
  test(`AI SDK, ${name}: several steps, parallel tools, and the next message`, async (t) => {
    const provider = await openaiProvider(t, SCRIPT);
    const gateway = await serveGateway(t, { provider });
    const notes = new Notes(gateway.workspace);
    const shared = {
      model: modelOf(gateway, LOCAL),
      tools: toolsFor(notes),
      instructions: "You keep notes.",
      stopWhen: isStepCount(5),
      maxRetries: 0,
    };
    const assertNotedOnce = (file: string, other: string): void => {
      assert.deepEqual(notes.linesOf(file), ["one", "three"]);
      assert.deepEqual(notes.linesOf(other), ["two"]);
    };

    await t.test("generateText", async () => {
      const asked = user("Write a and b.");
      const first = await generateText({ ...shared, messages: [asked] });
      assert.equal(first.text, "All three are written.");
      const finishes = first.steps.map(({ finishReason }) => finishReason);
      assert.deepEqual(finishes, ["tool-calls", "tool-calls", "stop"]);
      assert.equal(first.usage.outputTokens, 3 * 7, "each step's tokens are counted once");
      const messages = [asked, ...first.responseMessages, user("Thanks.")];
      assert.equal((await generateText({ ...shared, messages })).text, "You are welcome.");
      assertNotedOnce("a.txt", "b.txt");
      assert.equal(provider.calls.length, 4);
      assertEachExtendsTheOneBefore(provider.calls);
    });

    await t.test("streamText", async () => {
      const asked = user("Write c and d.");
      const first = streamText({ ...shared, messages: [asked] });
      let text = "";
      for await (const piece of first.textStream) text += piece;
      assert.equal(text, "Two first.All three are written.");
      assert.equal((await first.usage).outputTokens, 3 * 7);
      const messages = [asked, ...(await first.responseMessages), user("Thanks.")];
      assert.equal(await streamText({ ...shared, messages }).text, "You are welcome.");
      assertNotedOnce("c.txt", "d.txt");
      assert.equal(provider.calls.length, 8);
      assertEachExtendsTheOneBefore(provider.calls.slice(4));
    });

    await t.test("streamText with the rehearsal model", async () => {
      const model = modelOf(gateway, REHEARSAL);
      const { text } = streamText({ ...shared, model, messages: [user(REHEARSED)] });
      assert.equal(await text, "All three are written.");
      assertNotedOnce("e.txt", "f.txt");
    });

    const expected = { "fresh new": 3, continued_turn: 6, continued_conversation: 2 };
    assert.deepEqual(await gateway.answers(), expected);
  });
}
