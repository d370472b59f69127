/**
 * The AI SDK while `holdfast serve` is killed with SIGKILL at each stage of a conversation, and started again.
 *
 * A request that was not answered at all the SDK sends again by itself. An answer that breaks off ends the stream with an error, and the application
 * asks again with what the step was asked with.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, type ModelMessage, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTE, noteArgs } from "./note-tool.ts";
import { LOCAL } from "./served-gateway.ts";
import { type Killing, killAtEachStage } from "./stages.ts";

const toolsOf = ({ notes, staged }: Killing) => ({
  note: tool({ description: NOTE.description, inputSchema: noteArgs, execute: staged.tool(notes) }),
});

const shared = { stopWhen: isStepCount(5), maxRetries: 2 };

const TRIES_MAX = 3;

async function streamed(killing: Killing, asked: string): Promise<string> {
  const { baseURL, apiKey } = killing.gateway;
  const provider = createOpenAICompatible({ name: "gw", baseURL, apiKey, includeUsage: true });
  let messages: ModelMessage[] = [{ role: "user", content: asked }];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const result = streamText({
      ...shared,
      model: provider(LOCAL),
      tools: toolsOf(killing),
      messages,
      prepareStep: (step) => {
        ({ messages } = step);
        return {};
      },
      onError: () => undefined,
    });
    try {
      for await (const text of result.textStream) killing.onText(text);
      return await result.text;
    } catch (cause) {
      assert.ok(APICallError.isInstance(cause), String(cause));
    }
  }
  return assert.fail("it never came whole");
}

test("AI SDK, streamText: the gateway is killed at each stage, the tool runs once", (t) =>
  killAtEachStage(t, { isStreamed: true }, streamed));

test("AI SDK, generateText: the gateway is killed at each stage, the tool runs once", (t) =>
  killAtEachStage(t, { isStreamed: false }, async (killing, asked) => {
    const { baseURL, apiKey } = killing.gateway;
    const model = createOpenAI({ baseURL, apiKey }).chat(LOCAL);
    const { text } = await generateText({ ...shared, model, tools: toolsOf(killing), prompt: asked });
    return text;
  }));
