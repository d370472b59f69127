/**
 * A provider of `holdfast demo --page`: it speaks chat completions over HTTP as other people's servers do, and can be broken in the middle of an answer.
 *
 * What it says is a model's, handed in. Asked to write on behind the beginning of an answer it does so (`continue_final_message`, as vLLM).
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { type Model, ModelFailure, type ModelPart } from "../../agent/model.ts";
import { chatUsage } from "../../gateway/openai/chat-usage.ts";
import { parseChatRequest } from "../../gateway/openai/chat-request.ts";
import { toChatMessages } from "../../gateway/openai/history.ts";
import { modelList } from "../../gateway/openai/model-list.ts";
import {
  type ChatMessage,
  isJsonObject,
  type JsonObject,
  textOf,
  type ToolResultPart,
} from "../../protocol/chat-message.ts";
import { messageOf } from "../../protocol/errors.ts";
import { fieldsOf, parsedJson } from "../../protocol/fields.ts";

const NAME = "rehearsal";

export async function openProvider(model: Model) {
  const answers = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    response.on("error", () => undefined);
    if (request.method === "GET") {
      const models = [{ id: NAME, provider: NAME }];
      response.setHeader("content-type", "application/json").end(JSON.stringify(modelList(models, 0)));
      return;
    }
    answers.add(response);
    response.on("close", () => answers.delete(response));
    void answer(model, request, response).catch((cause: unknown) => fail(response, cause));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    /** What a config file says as `baseURL`. */
    get url(): string {
      const address = server.address();
      return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/v1`;
    },
    /** Every answer that has begun breaks off where it is. Returns how many. */
    breakOff(): number {
      const begun = [...answers].filter(({ headersSent }) => headersSent);
      for (const response of begun) response.destroy();
      return begun.length;
    },
    async close(): Promise<void> {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(model: Model, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body: unknown = await json(request);
  const { system, messages: lines, tools } = parseChatRequest(body);
  const offered = tools.map(({ name, description, parametersJson, strict }) => ({
    name,
    description,
    parameters: parametersOf(parametersJson),
    strict,
  }));
  const messages = toChatMessages(lines).history.map(withOutcomes);
  const last = messages.at(-1);
  const isContinued = fieldsOf(body)["continue_final_message"] === true && last?.role === "assistant";
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const parts = model.call({
    system,
    messages: isContinued ? messages.slice(0, -1) : messages,
    tools: offered,
    options: undefined,
    file: async () => new Uint8Array(),
    conversationId: "",
    signal: gone.signal,
    ...(isContinued ? { prefill: textOf(last) } : {}),
  });
  let calls = 0;
  for await (const part of parts) {
    if (part.kind === "tool_call") calls++;
    const said = chunkOf(part, calls - 1);
    if (said === undefined) continue;
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(
      `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model: NAME, ...said })}\n\n`,
    );
  }
  response.end("data: [DONE]\n\n");
}

function parametersOf(text: string): JsonObject {
  const parameters = parsedJson(text);
  return isJsonObject(parameters) ? parameters : {};
}

function chunkOf(part: ModelPart, call: number): object | undefined {
  const choice = (delta: object, finish: string | null = null): object => ({
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  switch (part.kind) {
    case "text":
      return choice({ content: part.text });
    case "thinking":
      return choice({ reasoning_content: part.text });
    case "tool_call": {
      const { toolCallId: id, tool: name, args } = part;
      return choice({
        tool_calls: [{ index: call, id, type: "function", function: { name, arguments: args } }],
      });
    }
    case "finish":
      return { ...choice({}, part.reason), usage: chatUsage(part.usage) };
    default:
      return undefined;
  }
}

/** The result of a denied tool call says so in these words. */
function withOutcomes(message: ChatMessage): ChatMessage {
  if (message.role !== "tool") return message;
  return { role: "tool", content: message.content.map(withOutcome) };
}

function withOutcome(result: ToolResultPart): ToolResultPart {
  const [, outcome, text = ""] = /^(failed|denied|aborted|unknown): (.*)$/s.exec(result.text) ?? [];
  switch (outcome) {
    case "failed":
    case "denied":
    case "aborted":
    case "unknown":
      return { ...result, outcome, text };
    default:
      return result;
  }
}

/** A refusal before the first word; behind it an answer just breaks. */
function fail(response: ServerResponse, cause: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status = 500, retryAfterMs } = cause instanceof ModelFailure ? cause : {};
  const headers =
    retryAfterMs === undefined ? {} : { "retry-after": String(Math.ceil(retryAfterMs / 1_000)) };
  response.writeHead(status === 0 ? 500 : status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message: messageOf(cause) } }));
}
