/**
 * People who use stock SDKs with a `fetch` of ours, or without: one question, a tool, an answer. They do nothing about a break.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, type LanguageModel, streamText, tool } from "ai";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { z } from "zod";

export interface Asking {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  readonly question: string;
  readonly fetch: typeof globalThis.fetch;
  readonly isStreamed: boolean;
  /** What the tool does; its result is told to the model. */
  readonly look: () => Promise<string>;
  /** How often the SDK tries again by itself. Default: 0. */
  readonly maxRetries?: number;
  /** Another piece of a streamed answer. */
  readonly onText?: (text: string) => void;
}

/** What the model said last. Rejects with what the user sees instead. */
export type User = (asking: Asking) => Promise<string>;

const AT = z.object({ at: z.string() });
const DESCRIPTION = "looks at something";
const PARAMETERS = { type: "object", properties: { at: { type: "string" } }, required: ["at"] };

const openai: User = async ({
  baseURL,
  apiKey,
  model,
  question,
  fetch,
  isStreamed,
  look,
  onText,
  maxRetries = 0,
}) => {
  const client = new OpenAI({ baseURL, apiKey, fetch, maxRetries });
  const tools = [
    {
      type: "function" as const,
      function: {
        name: "look",
        description: DESCRIPTION,
        parameters: PARAMETERS,
        function: look,
        parse: JSON.parse,
      },
    },
  ];
  const messages = [{ role: "user" as const, content: question }];
  const usage = { stream_options: { include_usage: true } };
  if (!isStreamed) {
    const runner = client.chat.completions.runTools({ model, messages, tools });
    return (await runner.finalContent()) ?? "";
  }
  const runner = client.chat.completions.runTools({ model, messages, tools, stream: true, ...usage });
  if (onText !== undefined) runner.on("content", onText);
  return (await runner.finalContent()) ?? "";
};

function chatModel({ baseURL, apiKey, fetch, model }: Asking) {
  return createOpenAICompatible({ name: "gw", baseURL, apiKey, fetch, includeUsage: true })(model);
}

function aiSdkBy(modelOf: (asking: Asking) => LanguageModel): User {
  return async (asking) => askAiSdk(asking, modelOf(asking));
}

async function askAiSdk(
  { question, isStreamed, look, onText, maxRetries = 0 }: Asking,
  model: LanguageModel,
): Promise<string> {
  const shared = {
    model,
    prompt: question,
    maxRetries,
    stopWhen: isStepCount(5),
    tools: { look: tool({ description: DESCRIPTION, inputSchema: AT, execute: look }) },
  };
  if (!isStreamed) return (await generateText(shared)).text;
  let failure: unknown;
  const result = streamText({
    ...shared,
    onError: ({ error }) => void (failure = error),
    onChunk: ({ chunk }) => void (chunk.type === "text-delta" && onText?.(chunk.text)),
  });
  await result.consumeStream();
  if (failure !== undefined) throw new Error("the answer broke", { cause: failure });
  return result.text;
}

const openaiResponses: User = async (asking) => {
  const { baseURL, apiKey, model, question, fetch, isStreamed, look, onText, maxRetries = 0 } = asking;
  const client = new OpenAI({ baseURL, apiKey, fetch, maxRetries });
  const tools = [
    {
      type: "function",
      name: "look",
      description: DESCRIPTION,
      parameters: PARAMETERS,
      strict: false,
    } as const,
  ];
  let input: OpenAI.Responses.ResponseInput = [{ role: "user", content: question }];
  for (let previous_response_id: string | null = null; ;) {
    const body = { model, input, tools, previous_response_id };
    const response: OpenAI.Responses.Response = isStreamed
      ? await client.responses
          .stream(body)
          .on("response.output_text.delta", ({ delta }) => onText?.(delta))
          .finalResponse()
      : await client.responses.create(body);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return response.output_text;
    input = await Promise.all(
      calls.map(async ({ call_id }) => ({
        type: "function_call_output" as const,
        call_id,
        output: await look(),
      })),
    );
    previous_response_id = response.id;
  }
};

/** Its base URL has no /v1. */
const anthropic: User = async (asking) => {
  const { baseURL, apiKey, model, question, fetch, isStreamed, look, onText, maxRetries = 0 } = asking;
  const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, fetch, maxRetries });
  const input_schema = { ...PARAMETERS, type: "object" as const };
  const tools = [{ name: "look", description: DESCRIPTION, input_schema }];
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: question }];
  for (;;) {
    const body = { model, max_tokens: 1_000, messages, tools };
    const { content } = isStreamed
      ? await client.messages
          .stream(body)
          .on("text", (text) => onText?.(text))
          .finalMessage()
      : await client.messages.create(body);
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const results = await Promise.all(
      calls.map(async ({ id }) => {
        return { type: "tool_result" as const, tool_use_id: id, content: await look() };
      }),
    );
    messages.push({ role: "assistant", content }, { role: "user", content: results });
  }
};

export const MESSAGES_USERS: Readonly<Record<string, User>> = { "Anthropic SDK": anthropic };

export const USERS: Readonly<Record<string, User>> = { "openai SDK": openai, "AI SDK": aiSdkBy(chatModel) };

/** The same SDKs by their other door. */
export const RESPONSES_USERS: Readonly<Record<string, User>> = {
  "openai SDK": openaiResponses,
  "AI SDK": aiSdkBy(({ baseURL, apiKey, fetch, model }) => createOpenAI({ baseURL, apiKey, fetch })(model)),
};

/** Remembers what each response of this `fetch` said, as its reader got it. */
export function recorded(fetch: typeof globalThis.fetch): {
  readonly fetch: typeof globalThis.fetch;
  readonly bodies: readonly string[];
} {
  const bodies: string[] = [];
  const decoders = (at: number) => {
    const decoder = new TextDecoder();
    return new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, passed) => {
        bodies[at] += decoder.decode(bytes, { stream: true });
        passed.enqueue(bytes);
      },
    });
  };
  return {
    bodies,
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      const at = bodies.push("") - 1;
      return new Response(response.body?.pipeThrough(decoders(at)) ?? null, response);
    },
  };
}
