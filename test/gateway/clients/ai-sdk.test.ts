/**
 * The AI SDK against `holdfast serve`, over both of its providers that speak chat completions.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, type LanguageModel, type ModelMessage, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { bySteps, openaiProvider } from "../scripted-provider.ts";
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
};

const toolsFor = (notes: Notes) => ({
  note: tool({ description: NOTE.description, inputSchema: noteArgs, execute: (args) => notes.add(args) }),
});

const SCRIPT = bySteps({
  "Write three notes.": [
    {
      thinking: "Two at once.",
      text: "Two first.",
      calls: [
        { name: "note", args: { file: "a.txt", text: "one" } },
        { name: "note", args: { text: "two", file: "b.txt" } },
      ],
    },
    { calls: [{ name: "note", args: { file: "a.txt", text: "three" } }] },
    { text: "All three are written." },
  ],
  "Thanks.": [{ text: "You are welcome." }],
});

const user = (content: string): ModelMessage => ({ role: "user", content });

async function generated(t: TestContext, modelOf: ModelOf): Promise<void> {
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
  const first = await generateText({ ...shared, messages: [user("Write three notes.")] });
  assert.equal(first.text, "All three are written.");
  assert.equal(first.steps.length, 3);
  assert.deepEqual(
    first.steps.map(({ finishReason }) => finishReason),
    ["tool-calls", "tool-calls", "stop"],
  );
  assert.equal(first.totalUsage.outputTokens, 3 * 7);
  const messages = [user("Write three notes."), ...first.responseMessages, user("Thanks.")];
  const second = await generateText({ ...shared, messages });
  assert.equal(second.text, "You are welcome.");
  assertNotedOnce(notes);
  assert.equal(provider.calls.length, 4);
  assertEachExtendsTheOneBefore(provider);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2, continued_conversation: 1 });
}

async function streamed(t: TestContext, modelOf: ModelOf): Promise<void> {
  const provider = await openaiProvider(t, SCRIPT);
  const gateway = await serveGateway(t, { provider });
  const notes = new Notes(gateway.workspace);
  const shared = { model: modelOf(gateway, LOCAL), tools: toolsFor(notes), stopWhen: isStepCount(5), maxRetries: 0 };
  const first = streamText({ ...shared, messages: [user("Write three notes.")] });
  let text = "";
  for await (const piece of first.textStream) text += piece;
  assert.equal(text, "Two first.All three are written.");
  assert.equal((await first.totalUsage).outputTokens, 3 * 7);
  const messages = [user("Write three notes."), ...(await first.responseMessages), user("Thanks.")];
  const second = streamText({ ...shared, messages });
  assert.equal(await second.text, "You are welcome.");
  assertNotedOnce(notes);
  assert.equal(provider.calls.length, 4);
  assertEachExtendsTheOneBefore(provider);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2, continued_conversation: 1 });
}

async function rehearsed(t: TestContext, modelOf: ModelOf): Promise<void> {
  const gateway = await serveGateway(t);
  const notes = new Notes(gateway.workspace);
  const script = [
    'call note {"file": "a.txt", "text": "one"}',
    'call note {"file": "b.txt", "text": "two"}',
    "then",
    'call note {"file": "a.txt", "text": "three"}',
    "then",
    "say All three are written.",
  ];
  const { text } = streamText({
    model: modelOf(gateway, REHEARSAL),
    tools: toolsFor(notes),
    stopWhen: isStepCount(5),
    messages: [user(script.join("\n"))],
  });
  assert.equal(await text, "All three are written.");
  assertNotedOnce(notes);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2 });
}

function assertNotedOnce(notes: Notes): void {
  assert.deepEqual(notes.linesOf("a.txt"), ["one", "three"]);
  assert.deepEqual(notes.linesOf("b.txt"), ["two"]);
}

for (const [name, modelOf] of Object.entries(PROVIDERS)) {
  test(`AI SDK, ${name}: generateText with parallel tools, three steps, and the next message`, (t) =>
    generated(t, modelOf));
  test(`AI SDK, ${name}: streamText, the same`, (t) => streamed(t, modelOf));
  test(`AI SDK, ${name}: the rehearsal model calls the client's tools`, (t) => rehearsed(t, modelOf));
}
