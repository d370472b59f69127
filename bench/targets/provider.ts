/**
 * A provider of models as OpenAI-compatible servers are: chat completions over server-sent events, on loopback.
 *
 * It thinks for no time, unless the question says so, and does as the question says (`harness/question.ts`). A piece of text begins with the moment
 * at which it was written, by the machine's monotonic clock, so that whoever gets it knows how long it took.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { nowUs } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { listening } from "../harness/credit.ts";
import { isRecord, type Measured } from "../harness/numbers.ts";
import { type Question, readQuestion, TOOL } from "../harness/question.ts";

let calls = 0;
let requestBytes = 0;

interface Asked {
  readonly question: Question;
  /** Results of tools since the question. */
  readonly results: number;
  /** What the model takes before it says anything. */
  readonly readMs: number;
}

/** Beginnings of prompts that the model has read, as prompt caches keep them. */
const read = new Set<string>();

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (piece: string) => {
    body += piece;
  });
  await once(request, "end");
  requestBytes += Buffer.byteLength(body);
  return body;
}

function readRequest(body: string): Asked {
  const json: unknown = JSON.parse(body);
  const messages: unknown = isRecord(json) ? json["messages"] : undefined;
  if (!Array.isArray(messages)) throw new TypeError("a request has messages");
  const roles = messages.map((message: unknown) => (isRecord(message) ? message["role"] : undefined));
  const at = roles.lastIndexOf("user");
  const results = roles.slice(at).filter((role) => role === "tool").length;
  const question = readQuestion(textOf(messages[at]));
  const readMs = question.messageUs === 0 ? 0 : (unreadOf(messages) * question.messageUs) / 1_000;
  return { question, results, readMs };
}

/** How many messages stand behind the longest beginning that was read before. */
function unreadOf(messages: readonly unknown[]): number {
  let beginning = "";
  let unread = 0;
  for (const message of messages) {
    beginning = createHash("sha256").update(beginning).update(JSON.stringify(message)).digest("base64");
    if (!read.has(beginning)) unread++;
    read.add(beginning);
  }
  return unread;
}

function textOf(message: unknown): string {
  const content: unknown = isRecord(message) ? message["content"] : undefined;
  return typeof content === "string" ? content : JSON.stringify(content);
}

function event(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "bench", choices })}\n\n`;
}

function toolCalls(first: number, count: number): string {
  const made = Array.from({ length: count }, (_, index) => ({
    index,
    id: `call-${first + index}`,
    type: "function",
    function: { name: TOOL, arguments: JSON.stringify({ n: first + index }) },
  }));
  return made.map((call) => event({ tool_calls: [call] })).join("");
}

/** Whole microseconds, then what it takes to be as long as is wanted. */
function token({ tokenBytes }: Question): string {
  return event({ content: `${Math.round(nowUs())} `.padEnd(tokenBytes, "x") });
}

function finish(response: ServerResponse, reason: string): void {
  const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };
  const last = `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "bench", choices: [], usage })}\n\n`;
  response.end(`${event({}, reason)}${last}data: [DONE]\n\n`);
}

function answer({ question, results }: Asked, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  if (results === 0 && question.parallel > 0) response.write(toolCalls(0, question.parallel));
  else if (results < question.steps) response.write(toolCalls(results, 1));
  else return say(question, response);
  finish(response, "tool_calls");
}

function say(question: Question, response: ServerResponse): void {
  const { tokens, everyMs } = question;
  response.write(token(question));
  let said = 1;
  if (everyMs === 0) {
    for (; said < tokens; said++) response.write(token(question));
    return finish(response, "stop");
  }
  const timer = setInterval(() => {
    if (said++ < tokens) response.write(token(question));
    else {
      clearInterval(timer);
      finish(response, "stop");
    }
  }, everyMs);
  response.on("close", () => clearInterval(timer));
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const asked = readRequest(await bodyOf(request));
  if (asked.readMs > 0) await sleep(asked.readMs);
  answer(asked, response);
}

const server = createServer((request, response) => {
  if (request.method === "POST") calls++;
  respond(request, response).catch((error: unknown) => response.writeHead(400).end(String(error)));
});

serveCommands({
  async start() {
    return { port: await listening(server) };
  },
  /** Since the last time. */
  counted(): Measured {
    const counted = { modelCalls: calls, requestBytes };
    calls = 0;
    requestBytes = 0;
    return counted;
  },
});
