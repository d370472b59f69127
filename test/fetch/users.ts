/**
 * People who use stock SDKs with a `fetch` of ours, or without: one question, a tool, an answer. They do nothing about a break.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, streamText, tool } from "ai";
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

const aiSdk: User = async ({
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
  const gateway = createOpenAICompatible({ name: "gw", baseURL, apiKey, fetch, includeUsage: true });
  const shared = {
    model: gateway(model),
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
};

export const USERS: Readonly<Record<string, User>> = { "openai SDK": openai, "AI SDK": aiSdk };

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
