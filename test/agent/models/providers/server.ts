/**
 * A provider on loopback: a real HTTP server that answers by a list of acts, one per request, and keeps what it was asked.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Server } from "node:net";
import { text as readText } from "node:stream/consumers";
import type { Cleanup } from "../../../cleanup.ts";
import type { Model, ModelCall, ModelPart } from "../../../../src/agent/model.ts";
import { createModels, type ModelsOptions, type ProviderType } from "../../../../src/agent/models/index.ts";
import type { ChatMessage } from "../../../../src/protocol/chat-message.ts";

export interface Asked {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** The client has gone before the answer was complete. */
  readonly gone: Promise<void>;
}

export type Act = (response: ServerResponse, asked: Asked) => void | Promise<void>;

/** In every test: it must never come out anywhere. */
export const API_KEY = "sk-canary-8f14e45fceea167a";

export class ProviderServer {
  readonly asked: Asked[] = [];
  readonly #acts: Act[];
  #origin = "";

  private constructor(acts: readonly Act[]) {
    this.#acts = [...acts];
  }

  /** The last act stays for all further requests. */
  static async start(t: Cleanup, ...acts: readonly Act[]): Promise<ProviderServer> {
    const provider = new ProviderServer(acts);
    const server = createServer((request, response) => void provider.#answer(request, response));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    provider.#origin = `http://127.0.0.1:${portOf(server)}`;
    t.after(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return provider;
  }

  get origin(): string {
    return this.#origin;
  }

  /** A model of this provider, as the registry makes it. */
  model(type: ProviderType, options: Partial<ModelsOptions> & { readonly name?: string } = {}): Model {
    const { name = "test-model", ...rest } = options;
    const config = { type, baseURL: `${this.#origin}/v1`, apiKeyEnv: "TEST_KEY" };
    const models = createModels({
      providers: { test: config },
      environment: { TEST_KEY: API_KEY },
      patience: { backoffMs: 1 },
      ...rest,
    });
    return models.resolve(`test/${name}`);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request);
    const gone = new Promise<void>((resolve) => {
      response.once("close", () => {
        if (!response.writableFinished) resolve();
      });
    });
    const body = fieldsOf(text === "" ? {} : JSON.parse(text));
    const asked = { path: request.url ?? "", headers: request.headers, text, body, gone };
    this.asked.push(asked);
    const act = this.#acts.length > 1 ? this.#acts.shift() : this.#acts[0];
    await act?.(response, asked);
  }
}

export function portOf(server: Server): number {
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("the server does not listen");
  return address.port;
}

export type Fields = Readonly<Record<string, unknown>>;

export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}

export function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

/** Server-sent events, and the end of the answer. */
export function events(...data: readonly unknown[]): Act {
  return (response) => {
    begin(response);
    for (const one of data) send(response, one);
    response.end();
  };
}

/** The same, and then the connection breaks. */
export function cutAfter(...data: readonly unknown[]): Act {
  return (response) => {
    begin(response);
    for (const one of data) send(response, one);
    response.write("", () => setImmediate(() => response.destroy()));
  };
}

/** The same, and then nothing more. */
export function silentAfter(...data: readonly unknown[]): Act {
  return (response) => {
    begin(response);
    for (const one of data) send(response, one);
  };
}

/** Some of it, and the rest when it may go on; with nothing first, not even the head. */
export function inTwo(first: readonly unknown[], goOn: () => Promise<void>, rest: readonly unknown[]): Act {
  return async (response) => {
    if (first.length > 0) begin(response);
    for (const one of first) send(response, one);
    await goOn();
    if (!response.headersSent) begin(response);
    for (const one of rest) send(response, one);
    response.end();
  };
}

/** Accepts the request and says nothing at all. */
export const silent: Act = () => {};

export function refuses(status: number, body: unknown, headers: Record<string, string> = {}): Act {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
}

export function begin(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
}

function send(response: ServerResponse, data: unknown): void {
  response.write(frameText(data));
}

/** An event. Objects that have a type are also named by it, as Anthropic and OpenAI's responses are. */
export function frameText(data: unknown): string {
  if (typeof data === "string") return `data: ${data}\n\n`;
  const type = typeof data === "object" && data !== null && "type" in data ? data.type : undefined;
  return `${typeof type === "string" ? `event: ${type}\n` : ""}data: ${JSON.stringify(data)}\n\n`;
}

export function user(text: string): ChatMessage {
  return { role: "user", content: [{ type: "text", text }] };
}

export function callOf(call: Partial<ModelCall> = {}): ModelCall {
  return {
    system: "You are terse.",
    messages: [user("Which way is the wind?")],
    tools: [],
    options: undefined,
    file: () => Promise.reject(new Error("no file was expected")),
    conversationId: "conversation-1",
    signal: new AbortController().signal,
    ...call,
  };
}

export async function partsOf(model: Model, call: Partial<ModelCall> = {}): Promise<readonly ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of model.call(callOf(call))) parts.push(part);
  return parts;
}

export function textIn(parts: readonly ModelPart[]): string {
  return parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}
