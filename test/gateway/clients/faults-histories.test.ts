/**
 * The `openai` SDK and the AI SDK with histories that are not what the gateway expects.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type LanguageModel, type ModelMessage, streamText, tool } from "ai";
import { test } from "node:test";
import OpenAI from "openai";
import { z } from "zod";
import { checkOddHistories, LOOK, type Speaker, type Told } from "./odd-histories.ts";
import { LOCAL, type ServedGateway } from "./served-gateway.ts";

type ChatMessage = OpenAI.ChatCompletionMessageParam;

function openaiSpeaker({ baseURL, apiKey }: ServedGateway, isStreamed: boolean): Speaker<ChatMessage> {
  const { completions } = new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat;
  return {
    user: (content) => ({ role: "user", content }),
    results: (...all) => all.map(([id, content]) => ({ role: "tool", tool_call_id: id, content })),
    async ask(messages) {
      const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: LOOK }];
      const body = { model: LOCAL, messages: [...messages], tools };
      const answer = isStreamed
        ? await completions.stream(body).finalChatCompletion()
        : await completions.create(body);
      const message = answer.choices[0]?.message;
      if (message === undefined) throw new Error("it said nothing");
      return {
        text: message.content ?? "",
        ids: (message.tool_calls ?? []).map(({ id }) => id),
        said: [message],
      };
    },
  };
}

/** The SDK does not run it: it has no way to. */
const look = tool({
  description: LOOK.description,
  inputSchema: z.object({ at: z.string() }),
  outputSchema: z.string(),
});

function aiSpeaker(model: LanguageModel, isStreamed: boolean): Speaker<ModelMessage> {
  return {
    user: (content) => ({ role: "user", content }),
    results: (...all) => [
      {
        role: "tool",
        content: all.map(([toolCallId, value]) => ({
          type: "tool-result",
          toolCallId,
          toolName: LOOK.name,
          output: { type: "text", value },
        })),
      },
    ],
    async ask(messages): Promise<Told<ModelMessage>> {
      const asked = { model, tools: { look }, messages: [...messages], maxRetries: 0 };
      const result = isStreamed ? streamText(asked) : await generateText(asked);
      const toolCalls = await result.toolCalls;
      return {
        text: await result.text,
        ids: toolCalls.map(({ toolCallId }) => toolCallId),
        said: await result.responseMessages,
      };
    },
  };
}

test("openai SDK, create: odd histories", (t) =>
  checkOddHistories(t, (gateway) => openaiSpeaker(gateway, false)));

test("openai SDK, stream: odd histories", (t) =>
  checkOddHistories(t, (gateway) => openaiSpeaker(gateway, true)));

test("AI SDK, @ai-sdk/openai-compatible, streamText: odd histories", (t) =>
  checkOddHistories(t, ({ baseURL, apiKey }) =>
    aiSpeaker(createOpenAICompatible({ name: "gw", baseURL, apiKey })(LOCAL), true),
  ));

test("AI SDK, @ai-sdk/openai .chat, generateText: odd histories", (t) =>
  checkOddHistories(t, ({ baseURL, apiKey }) =>
    aiSpeaker(createOpenAI({ baseURL, apiKey }).chat(LOCAL), false),
  ));
