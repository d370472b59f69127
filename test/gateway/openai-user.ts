/**
 * An OpenAI client by hand: it sends bodies, reads what comes back while it comes, hangs up, and keeps the history as real ones do.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { z } from "zod";
import { ALICE_KEY } from "../server/http/rig.ts";

export const CHAT = "/v1/chat/completions";

export interface ToolCallIn {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

export type Line = Readonly<Record<string, unknown>>;

const CHUNK = z.object({
  id: z.string().optional(),
  model: z.string().optional(),
  error: z.object({ type: z.string(), code: z.string().nullable() }).optional(),
  choices: z
    .array(
      z.object({
        delta: z.object({
          content: z.string().nullish(),
          tool_calls: z
            .array(
              z.object({
                index: z.number(),
                id: z.string().optional(),
                function: z.object({ name: z.string().optional(), arguments: z.string().optional() }),
              }),
            )
            .optional(),
        }),
        finish_reason: z.string().nullable(),
      }),
    )
    .optional(),
});

/** What a client made of a streamed response. */
export interface Reply {
  readonly status: number;
  readonly streamId: string;
  readonly responseId: string;
  readonly text: string;
  readonly calls: readonly ToolCallIn[];
  readonly finish: string | undefined;
  readonly error: string | undefined;
  /** With `[DONE]`, and the end of the response. */
  readonly isWhole: boolean;
  /** The last one of each frame that has one. */
  readonly ids: readonly string[];
  readonly body: string;
}

export interface Asking {
  readonly path?: string;
  readonly method?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A response on its way. */
export class Exchange {
  readonly #request;
  readonly #response: Promise<IncomingMessage | undefined>;
  #body = "";
  #isEnded = false;
  #changed = Promise.withResolvers<void>();
  readonly #over: Promise<void>;

  constructor(url: string, body: string | undefined, asking: Asking = {}) {
    const { path = CHAT, method = "POST", apiKey = ALICE_KEY, headers = {} } = asking;
    const all = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...headers };
    this.#request = request(`${url}${path}`, { method, headers: all, agent: false });
    this.#request.on("error", () => undefined);
    this.#response = new Promise((resolve) => {
      this.#request.once("response", resolve);
      this.#request.once("close", () => resolve(undefined));
    });
    this.#over = this.#read();
    this.#request.end(body);
  }

  async #read(): Promise<void> {
    const response = await this.#response;
    if (response !== undefined) {
      response.on("error", () => undefined);
      response.on("end", () => (this.#isEnded = true));
      response.on("data", (piece: Buffer) => {
        this.#body += piece.toString();
        this.#change();
      });
      if (!response.closed) await once(response, "close").catch(() => undefined);
    }
    this.#change();
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Waits until the body has these words. */
  async until(words: string): Promise<void> {
    let isOver = false;
    void this.#over.then(() => (isOver = true));
    while (!this.#body.includes(words)) {
      assert.ok(!isOver, `"${words}" never came, but: ${this.#body}`);
      await Promise.race([this.#changed.promise, this.#over]);
    }
  }

  /** Waits until the response has a status. */
  async begun(): Promise<void> {
    await this.#response;
  }

  /** The stream that the response names, once it has begun. */
  async streamId(): Promise<string> {
    return String((await this.#response)?.headers["x-holdfast-stream"] ?? "");
  }

  /** The path that continues the answer, once the response has begun. */
  async resumePath(): Promise<string> {
    return String((await this.#response)?.headers["x-holdfast-resume"] ?? "");
  }

  hasCome(words: string): boolean {
    return this.#body.includes(words);
  }

  hangUp(): void {
    this.#request.destroy();
  }

  /** A response that is not streamed, as it came. */
  async json(): Promise<{ readonly status: number; readonly body: string }> {
    await this.#over;
    const status = (await this.#response)?.statusCode ?? 0;
    return { status, body: this.#isEnded ? this.#body : "" };
  }

  async reply(): Promise<Reply> {
    await this.#over;
    const response = await this.#response;
    const status = response?.statusCode ?? 0;
    const streamId = String(response?.headers["x-holdfast-stream"] ?? "");
    return readReply(this.#body, { status, streamId, isEnded: this.#isEnded });
  }
}

export function readReply(
  body: string,
  {
    status,
    streamId,
    isEnded,
  }: { readonly status: number; readonly streamId: string; readonly isEnded: boolean },
): Reply {
  let text = "";
  let responseId = "";
  let finish: string | undefined;
  let error: string | undefined;
  const calls: { id: string; name: string; args: string }[] = [];
  const data = [...body.matchAll(/^data: (.*)\n\n/gm)].map(([, words = ""]) => words);
  const whole = status === 200 ? data : [body];
  for (const words of whole) {
    if (words === "[DONE]" || words === "") continue;
    const chunk = CHUNK.parse(JSON.parse(words));
    responseId = chunk.id ?? responseId;
    error = chunk.error === undefined ? error : `${chunk.error.type} ${chunk.error.code ?? ""}`.trim();
    for (const { delta, finish_reason } of chunk.choices ?? []) {
      text += delta.content ?? "";
      finish = finish_reason ?? finish;
      for (const { index, id, function: called } of delta.tool_calls ?? []) {
        const call = (calls[index] ??= { id: "", name: "", args: "" });
        call.id += id ?? "";
        call.name += called.name ?? "";
        call.args += called.arguments ?? "";
      }
    }
  }
  const ids = [...body.matchAll(/^id: (.*)$/gm)].map(([, id = ""]) => id);
  const isWhole = isEnded && data.at(-1) === "[DONE]";
  return { status, streamId, responseId, text, calls, finish, error, isWhole, ids, body };
}

export const user = (content: string): Line => ({ role: "user", content });
export const result = (id: string, content: string): Line => ({ role: "tool", tool_call_id: id, content });

/** The assistant's message as clients send it back. */
export function said({ text, calls }: Pick<Reply, "text" | "calls">): Line {
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, args }) => ({
            id,
            type: "function",
            function: { name, arguments: args },
          })),
        }),
  };
}

export function tool(name: string): Line {
  return {
    type: "function",
    function: { name, description: `Does ${name}`, parameters: { type: "object" } },
  };
}

export const TOOLS = [tool("look"), tool("touch")];

export function bodyOf(messages: readonly Line[], more: object = {}): string {
  return JSON.stringify({ model: "paced/model", stream: true, tools: TOOLS, messages, ...more });
}
