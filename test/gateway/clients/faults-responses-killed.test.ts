/**
 * The AI SDK's default, Responses, while `holdfast serve` is killed with SIGKILL at each stage of a conversation, and started again.
 *
 * A request that was not answered at all the SDK sends again by itself. What breaks off behind its head is asked for again by the application.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, isStepCount, type ModelMessage, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTE, noteArgs } from "./note-tool.ts";
import { LOCAL } from "./served-gateway.ts";
import { killAtEachStage } from "./stages.ts";

const TRIES_MAX = 3;

test("AI SDK, streamText over Responses: the gateway is killed at each stage, the tool runs once", (t) =>
  killAtEachStage(t, { isStreamed: true }, async (killing, asked) => {
    const { gateway, staged, notes } = killing;
    const { baseURL, apiKey } = gateway;
    const note = tool({
      description: NOTE.description,
      inputSchema: noteArgs,
      execute: staged.tool(notes),
    });
    let messages: ModelMessage[] = [{ role: "user", content: asked }];
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const result = streamText({
        model: createOpenAI({ baseURL, apiKey })(LOCAL),
        tools: { note },
        messages,
        stopWhen: isStepCount(5),
        maxRetries: 2,
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
  }));
