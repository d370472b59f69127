/**
 * One chat completion over HTTP/1.1, streamed: the same client for the provider and for the gateways before it; by Holdfast's other doors as well.
 *
 * `node:http` with connections that are kept, because `fetch` costs as much as the servers under test.
 */
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { isRecord } from "../harness/numbers.ts";
import { TOOL, TOOL_ABOUT, TOOL_SCHEMA } from "../harness/question.ts";
import type { AnswerTimes } from "./answer-times.ts";
import { type Door, eventOf, PATHS } from "./doors.ts";

/** Whom to ask, and how it is told what to do. */
export interface Asked {
  readonly port: number;
  readonly model: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Default: chat. */
  readonly door?: Door;
}

export type ChatMessage = Readonly<Record<string, unknown>>;

/** What an answer was. */
export interface Answered {
  readonly text: string;
  readonly toolCallIds: readonly string[];
  readonly finish: string;
}

const agent = new Agent({ keepAlive: true });

export function askedOf(kind: string, port: number, providerPort: number, apiKey: string): Asked {
  const authorization = `Bearer ${apiKey}`;
  switch (kind) {
    case "direct":
      return { port, model: "bench", headers: { authorization } };
    case "portkey":
      return {
        port,
        model: "bench",
        headers: {
          authorization,
          "x-portkey-provider": "openai",
          "x-portkey-custom-host": `http://127.0.0.1:${providerPort}/v1`,
        },
      };
    case "holdfast":
      return { port, model: "local/bench", headers: { authorization } };
    default:
      throw new TypeError(`nobody is called ${kind}`);
  }
}

export function userSays(content: string): ChatMessage {
  return { role: "user", content };
}

/** As bytes, so that making them is not part of what is measured. */
export function bodyOf(model: string, messages: readonly ChatMessage[], hasTools: boolean): Buffer {
  const tool = { name: TOOL, description: TOOL_ABOUT, parameters: TOOL_SCHEMA };
  const tools = hasTools ? { tools: [{ type: "function", function: tool }] } : {};
  return Buffer.from(JSON.stringify({ model, stream: true, messages, ...tools }));
}

export async function complete(
  { port, headers, door = "chat" }: Asked,
  body: Buffer,
  times: AnswerTimes,
): Promise<Answered> {
  const call = request({
    agent,
    host: "127.0.0.1",
    port,
    path: PATHS[door],
    method: "POST",
    headers: { ...headers, "content-type": "application/json", "content-length": body.length },
  });
  call.end(body);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    call.once("response", resolve);
    call.once("error", reject);
  });
  response.setEncoding("utf8");
  const answer = new Reading(times, door);
  let whole = "";
  response.on("data", (piece: string) => {
    if (response.statusCode === 200) answer.take(piece);
    else whole += piece;
  });
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode}: ${whole}`);
  return answer.answered();
}

class Reading {
  readonly #times: AnswerTimes;
  readonly #door: Door;
  readonly #toolCallIds: string[] = [];
  #finish: string | undefined;
  #text = "";
  #rest = "";
  #isDone = false;

  constructor(times: AnswerTimes, door: Door) {
    this.#times = times;
    this.#door = door;
  }

  take(piece: string): void {
    const events = (this.#rest + piece).split("\n\n");
    this.#rest = events.pop() ?? "";
    for (const event of events) this.#event(event);
  }

  answered(): Answered {
    if (!this.#isDone || this.#finish === undefined) throw new Error("an answer was cut off");
    return { text: this.#text, toolCallIds: this.#toolCallIds, finish: this.#finish };
  }

  #event(event: string): void {
    // An id may stand before or behind it.
    const line = event.split("\n").find((candidate) => candidate.startsWith("data: "));
    if (line === undefined) return;
    const data = line.slice("data: ".length);
    if (data === "[DONE]") this.#isDone = true;
    else if (this.#door === "chat") this.#chunk(JSON.parse(data));
    else this.#other(JSON.parse(data));
  }

  #other(json: unknown): void {
    if (!isRecord(json) || json["type"] === "error")
      throw new Error(`the answer failed: ${JSON.stringify(json)}`);
    const { text = "", finish, isLast } = eventOf(json);
    this.#finish ??= finish;
    this.#isDone ||= isLast;
    this.#text += text;
    if (text !== "") this.#times.came(text);
  }

  #chunk(json: unknown): void {
    if (!isRecord(json) || "error" in json) throw new Error(`the answer failed: ${JSON.stringify(json)}`);
    const choice: unknown = Array.isArray(json["choices"]) ? json["choices"][0] : undefined;
    if (!isRecord(choice)) return;
    if (typeof choice["finish_reason"] === "string") this.#finish = choice["finish_reason"];
    const { delta } = choice;
    if (!isRecord(delta)) return;
    if (typeof delta["content"] === "string" && delta["content"] !== "") {
      this.#text += delta["content"];
      this.#times.came(delta["content"]);
    }
    if (!Array.isArray(delta["tool_calls"])) return;
    for (const call of delta["tool_calls"]) {
      if (isRecord(call) && typeof call["id"] === "string") this.#toolCallIds.push(call["id"]);
    }
  }
}
