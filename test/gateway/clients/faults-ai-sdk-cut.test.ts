/**
 * The AI SDK over a connection that is cut after so many bytes of a response.
 *
 * Cut in the headers, the SDK asks again by itself; an answer that breaks off ends its stream with an error, and the application asks again with what
 * the step was asked with. With `streamRetries` it runs no tool before the response is whole; without, a tool may run whose response never was.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, isStepCount, type LanguageModel, type ModelMessage, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import {
  beginCuttable,
  BEHIND_CALLS,
  type Cuttable,
  cutIn,
  cutNext,
  HANDED_OVER,
  UNDER_WAY,
} from "./cuttable.ts";
import { NOTE, type NoteArgs, noteArgs } from "./note-tool.ts";
import { LOCAL } from "./served-gateway.ts";
import { WRITTEN } from "./staged-notes.ts";

const TRIES_MAX = 3;

type ModelOf = (cuttable: Cuttable) => LanguageModel;

const openaiChat: ModelOf = ({ gateway: { baseURL, apiKey } }) =>
  createOpenAI({ baseURL, apiKey }).chat(LOCAL);

const noteTool = (execute: (args: NoteArgs, call: { readonly toolCallId: string }) => Promise<string>) => ({
  note: tool({ description: NOTE.description, inputSchema: noteArgs, execute }),
});

async function run(cuttable: Cuttable, modelOf: ModelOf, asked: string): Promise<string> {
  let messages: ModelMessage[] = [{ role: "user", content: asked }];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const result = streamText({
      model: modelOf(cuttable),
      tools: noteTool(cuttable.staged.tool(cuttable.notes)),
      messages,
      stopWhen: isStepCount(5),
      streamRetries: 1,
      prepareStep: (step) => {
        ({ messages } = step);
        return {};
      },
      onError: () => undefined,
    });
    try {
      return await result.text;
    } catch (cause) {
      assert.ok(APICallError.isInstance(cause), String(cause));
    }
  }
  return assert.fail("it never came whole");
}

const PROVIDERS: Readonly<Record<string, ModelOf>> = {
  "@ai-sdk/openai-compatible": ({ gateway: { baseURL, apiKey } }) =>
    createOpenAICompatible({ name: "gw", baseURL, apiKey, includeUsage: true })(LOCAL),
  "@ai-sdk/openai .chat": openaiChat,
};

const PLACES = [
  ...UNDER_WAY.map((where) => ({ where, isUnderWay: true })),
  ...HANDED_OVER.map((where) => ({ where, isUnderWay: false })),
];

for (const [name, modelOf] of Object.entries(PROVIDERS)) {
  test(`AI SDK, ${name}: cut anywhere, the tool runs once`, async (t) => {
    const cuttable = await beginCuttable(t);
    const { staged, notes, newCalls } = cuttable;
    for (const [at, { where, isUnderWay }] of PLACES.entries()) {
      await t.test(`cut ${where.name}`, async () => {
        const file = `notes-${at}.txt`;
        const converse = () => run(cuttable, modelOf, file);
        const stop = isUnderWay ? staged.holdProvider(where.step, 4) : undefined;
        assert.equal(await cutIn(cuttable, where, { converse, stop }), WRITTEN);
        assert.deepEqual(notes.linesOf(file), ["one"], "the tool ran once");
        const calls = newCalls();
        // What was handed to the system whole is generated again: nobody can know that it did not arrive.
        assert.ok(calls >= 2 && calls <= (isUnderWay ? 2 : 3), `${calls} calls of the model`);
      });
    }
  });
}

test("AI SDK with an Idempotency-Key: asked for again, a tool call has the id that it had in the broken response", async (t) => {
  const cuttable = await beginCuttable(t);
  const { notes, newCalls } = cuttable;
  const noted = new Map<string, string>();
  // Whether it runs already in the broken response is the SDK's affair: an id is noted once.
  const tools = noteTool(async (args, { toolCallId }) => {
    const result = noted.get(toolCallId) ?? notes.add(args);
    noted.set(toolCallId, result);
    return result;
  });
  const headers = { "Idempotency-Key": randomUUID() };
  const begun: string[] = [];
  const ask = () =>
    streamText({
      model: openaiChat(cuttable),
      tools,
      headers,
      prompt: "a.txt",
      onChunk: ({ chunk }) => void (chunk.type === "tool-input-start" && begun.push(chunk.id)),
      onError: () => undefined,
    });

  const cut = cutNext(cuttable, BEHIND_CALLS);
  const broken = ask();
  await assert.rejects(
    async () => await broken.text,
    (cause) => APICallError.isInstance(cause),
  );
  await cut;
  assert.equal(await ask().finishReason, "tool-calls");
  const [id = ""] = noted.keys();
  assert.deepEqual(begun, [id, id], "both responses told of it");
  assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
  assert.equal(newCalls(), 1);
});
