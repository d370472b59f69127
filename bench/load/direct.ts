/**
 * The provider without Holdfast: by `fetch`, and through the AI SDK's model as the agent uses it. Nothing is kept
 * anywhere; tools run in this process.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { LineClient } from "../../src/agent/models/line/line-client.ts";
import { heldRequests } from "../../src/agent/models/line/line-fetch.ts";
import { TAKEN } from "../../src/agent/models/upstream/given-events.ts";
import { STALL_CLOCKS } from "../../src/agent/models/upstream/stall-clocks.ts";
import { UpstreamCall } from "../../src/agent/models/upstream/upstream-call.ts";
import { ensureLine } from "../../src/node/line-life.ts";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, isRecord, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { TOOL, TOOL_ABOUT, TOOL_SCHEMA } from "../harness/question.ts";
import { percentile } from "../harness/statistics.ts";
import { type AnswerTimes, timeAnswers } from "./answer-times.ts";

type Options = Omit<LanguageModelV4CallOptions, "prompt">;

const TOOLS: Options = {
  tools: [{ type: "function", name: TOOL, description: TOOL_ABOUT, inputSchema: TOOL_SCHEMA }],
};

function modelAt(port: number): LanguageModelV4 {
  const baseURL = `http://127.0.0.1:${port}/v1`;
  return createOpenAICompatible({ name: "bench", baseURL, includeUsage: true }).chatModel("bench");
}

type Fetch = typeof globalThis.fetch;

function requestOf(port: number, content: string): readonly [string, RequestInit] {
  const body = JSON.stringify({ model: "bench", stream: true, messages: [{ role: "user", content }] });
  const headers = { "content-type": "application/json" };
  return [`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", headers, body }];
}

/** As a chat completion is read: its events are parsed once, below the SDK. */
async function byEvents(
  call: UpstreamCall,
  port: number,
  content: string,
  times: AnswerTimes,
): Promise<void> {
  await call.fetch(...requestOf(port, content)).catch((cause: unknown) => {
    if (cause !== TAKEN) throw cause;
  });
  for (let isOver = false; !isOver;) {
    const { events, isLast } = await call.next();
    for (const { value } of events) {
      const said = contentOf(value);
      if (said !== undefined) times.came(said);
    }
    isOver = isLast;
  }
}

async function byFetch(send: Fetch, port: number, content: string, times: AnswerTimes): Promise<void> {
  const response = await send(...requestOf(port, content));
  if (!response.ok || response.body === null) throw new Error(`the provider answered ${response.status}`);
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const said = contentIn(event);
      if (said !== undefined) times.came(said);
    }
  }
}

function contentIn(event: string): string | undefined {
  const data = event.slice("data: ".length);
  return data === "[DONE]" ? undefined : contentOf(JSON.parse(data));
}

function contentOf(json: unknown): string | undefined {
  const choice: unknown = isRecord(json) && Array.isArray(json["choices"]) ? json["choices"][0] : undefined;
  const delta: unknown = isRecord(choice) ? choice["delta"] : undefined;
  const content: unknown = isRecord(delta) ? delta["content"] : undefined;
  return typeof content === "string" ? content : undefined;
}

async function bySdk(model: LanguageModelV4, text: string, times: AnswerTimes): Promise<void> {
  const { stream } = await model.doStream({ prompt: [userSays(text)] });
  for await (const part of stream) if (part.type === "text-delta") times.came(part.delta);
}

function userSays(text: string): LanguageModelV4Prompt[number] {
  return { role: "user", content: [{ type: "text", text }] };
}

async function ask(given: Arguments): Promise<Measured> {
  const port = numberIn(given, "port");
  const question = textIn(given, "question");
  const model = modelAt(port);
  const how = textIn(given, "how");
  const isHeld = how === "line" || how === "upstream" || how === "events";
  const plain = isHeld ? await lineFetch(textIn(given, "directory")) : fetch;
  const send: Fetch = how === "upstream" ? (...request) => newCall(plain).fetch(...request) : plain;
  const asked = (times: AnswerTimes): Promise<void> => {
    if (how === "sdk") return bySdk(model, question, times);
    return how === "events"
      ? byEvents(newCall(plain, true), port, question, times)
      : byFetch(send, port, question, times);
  };
  return timeAnswers(asked, { warmUps: numberIn(given, "warmUps"), asked: numberIn(given, "asked") });
}

/** As below the SDK: whole events only, with the clocks of a call. */
function newCall(send: Fetch, isReadByEvents = false): UpstreamCall {
  return new UpstreamCall({
    dialect: "openai-compatible",
    fetch: send,
    clocks: STALL_CLOCKS,
    provider: { pings: false },
    isReadByEvents,
    onRequest: () => Promise.resolve(),
    watch: {},
  });
}

/** Each request through a line, under a name of its own, and forgotten when it is over. */
async function lineFetch(directory: string): Promise<Fetch> {
  const machine = { env: { XDG_RUNTIME_DIR: directory }, platform: process.platform };
  const onNotice = (notice: string): void => void process.stderr.write(`${notice}\n`);
  const line = new LineClient(() =>
    ensureLine({ dataDir: directory, machine, onNotice, bounds: { idleMs: 1_000 } }),
  );
  let asked = 0;
  return async (...request) => {
    const step = (asked++).toString(16).padStart(16, "0");
    const nameOf = (at: number): string => `${step}${at.toString(16).padStart(16, "0")}`;
    const stream = { principal: "bench", idempotencyKey: step };
    const held = await heldRequests(line, { nameOf, hostEpoch: 1, stream });
    if (held === undefined) throw new Error("there is no line");
    return held.fetch("bench", fetch, () => undefined)(...request);
  };
}

/** One turn: calls the model and the tool in turn until the model asks for nothing more. */
async function turn(model: LanguageModelV4, question: string): Promise<number> {
  const prompt: LanguageModelV4Prompt = [userSays(question)];
  for (let ran = 0; ;) {
    const calls: { readonly toolCallId: string; readonly input: string }[] = [];
    const { stream } = await model.doStream({ prompt, ...TOOLS });
    for await (const part of stream) if (part.type === "tool-call") calls.push(part);
    if (calls.length === 0) return ran;
    ran += calls.length;
    prompt.push(
      {
        role: "assistant",
        content: calls.map(({ toolCallId, input }) => ({
          type: "tool-call",
          toolCallId,
          toolName: TOOL,
          input,
        })),
      },
      {
        role: "tool",
        content: calls.map(({ toolCallId }) => ({
          type: "tool-result",
          toolCallId,
          toolName: TOOL,
          output: { type: "text", value: "ticked" },
        })),
      },
    );
  }
}

async function turns(given: Arguments): Promise<Measured> {
  const model = modelAt(numberIn(given, "port"));
  const question = textIn(given, "question");
  const wanted = numberIn(given, "turns");
  for (let at = 0; at < numberIn(given, "warmUps"); at++) await turn(model, question);
  const busy = busyMeter();
  const times: number[] = [];
  let toolCalls = 0;
  for (let at = 0; at < wanted; at++) {
    const startedMs = performance.now();
    toolCalls += await turn(model, question);
    times.push(performance.now() - startedMs);
  }
  const wallMs = percentile(
    times.toSorted((a, b) => a - b),
    50,
  );
  return { wallMs, toolCalls: toolCalls / wanted, clientCpuMs: (busy()["cpuMs"] ?? Number.NaN) / wanted };
}

serveCommands({ ask, turns });
