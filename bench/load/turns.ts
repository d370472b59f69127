/**
 * Turns of a real client: `openClient` over HTTP/2 with its journals on disk, or in memory, a function tool, and conversations.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, flagIn, isRecord, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { TOOL, TOOL_ABOUT, TOOL_SCHEMA } from "../harness/question.ts";
import { percentile } from "../harness/statistics.ts";
import {
  type Conversation,
  Conversations,
  type NodeClient,
  openClient,
  storesOf,
} from "../../src/client-node/index.ts";
import { createTools, parseToolsConfig, type ToolSet } from "../../src/tools/index.ts";
import { AnswerTimes, timeAnswers } from "./answer-times.ts";
import { askWithHistory } from "./history-turn.ts";
import { traffic } from "./socket-bytes.ts";

let client: NodeClient | undefined;
let conversations: Conversations | undefined;
let conversation: Conversation | undefined;
let toolRuns = 0;
let writes = 0;

/** Each message is at most one sync; some share one. */
function countWrites(): void {
  const { postMessage } = Object.getOwnPropertyDescriptors(Worker.prototype);
  const send = postMessage.value;
  if (send === undefined) throw new Error("the database's thread is asked by messages");
  Worker.prototype.postMessage = function counted(message: unknown, ...transfer) {
    if (Array.isArray(message) && message.some((request) => isRecord(request) && request["kind"] === "batch"))
      writes++;
    return send.apply(this, [message, ...transfer]);
  };
}

async function open(given: Arguments): Promise<Measured> {
  const directory = textIn(given, "directory");
  countWrites();
  const tools = await toolsIn(directory);
  client = await openClient({
    url: `http://127.0.0.1:${numberIn(given, "port")}`,
    apiKey: "bench",
    scope: "application",
    directory: join(directory, "client"),
    persistence: flagIn(given, "persistence"),
    homeKey: new Uint8Array(32).fill(7),
    tools,
  });
  const { definitions } = tools;
  conversations = new Conversations({ client, ...storesOf(client), tools: { kinds: [], definitions } });
  return {};
}

/** One function that does nothing, and no other tool. */
function toolsIn(workspace: string): Promise<ToolSet> {
  return createTools({
    workspace,
    stateDirectory: join(workspace, "state"),
    config: parseToolsConfig({ shell: { enabled: false } }),
    functions: {
      [TOOL]: {
        description: TOOL_ABOUT,
        parameters: TOOL_SCHEMA,
        policy: "allow",
        run: async () => {
          toolRuns++;
          return "ticked";
        },
      },
    },
  });
}

function opened(): { readonly client: NodeClient; readonly conversations: Conversations } {
  if (client === undefined || conversations === undefined) throw new Error("open the client first");
  return { client, conversations };
}

/** One turn, to its very end: everything is kept. */
async function send(talk: Conversation, text: string, times = new AnswerTimes()): Promise<void> {
  const turn = await talk.send({ text });
  turn.watch((_, heard) => {
    const message = heard?.message.message;
    if (message?.case !== "interactionUpdate" || message.value.message.case !== "textDelta") return;
    times.came(message.value.message.value.text);
  });
  const { reason, failure } = await turn.ended;
  if (reason !== "completed") throw new Error(`a turn ${reason}: ${failure?.message ?? ""}`);
}

/** Every answer in a conversation of its own. */
async function ask(given: Arguments): Promise<Measured> {
  const text = textIn(given, "question");
  const fresh: Conversation[] = [];
  const sizes = { warmUps: numberIn(given, "warmUps"), asked: numberIn(given, "asked") };
  for (let at = 0; at < sizes.warmUps + sizes.asked; at++) fresh.push(await opened().conversations.begin());
  return timeAnswers(async (times) => {
    const next = fresh.pop();
    if (next !== undefined) await send(next, text, times);
  }, sizes);
}

async function turns(given: Arguments): Promise<Measured> {
  const text = textIn(given, "question");
  const wanted = numberIn(given, "turns");
  const fresh: Conversation[] = [];
  for (let at = 0; at < wanted; at++) fresh.push(await opened().conversations.begin());
  const [runsBefore, writesBefore] = [toolRuns, writes];
  const busy = busyMeter();
  const times: number[] = [];
  for (const next of fresh) {
    const startedMs = performance.now();
    await send(next, text);
    times.push(performance.now() - startedMs);
  }
  return {
    wallMs: percentile(
      times.toSorted((a, b) => a - b),
      50,
    ),
    toolCalls: (toolRuns - runsBefore) / wanted,
    clientWrites: (writes - writesBefore) / wanted,
    clientCpuMs: (busy()["cpuMs"] ?? Number.NaN) / wanted,
  };
}

/** Measures answers one at a time, and what went over the network for each. */
async function timeTraffic(asked: number, ask: (times: AnswerTimes) => Promise<void>): Promise<Measured> {
  const before = traffic();
  const measured = await timeAnswers(ask, { warmUps: 0, asked });
  const { sentBytes, receivedBytes } = traffic();
  return {
    ...measured,
    sentBytes: (sentBytes - before.sentBytes) / asked,
    receivedBytes: (receivedBytes - before.receivedBytes) / asked,
  };
}

/** Goes on with the one long conversation, `turns` times. */
async function grow(given: Arguments): Promise<Measured> {
  conversation ??= await opened().conversations.begin();
  for (let at = 0; at < numberIn(given, "turns"); at++) await send(conversation, textIn(given, "question"));
  return { messages: conversation.state?.messages.length ?? 0 };
}

/** The same, and looks at what each turn takes. */
function goOn(given: Arguments): Promise<Measured> {
  return timeTraffic(numberIn(given, "asked"), async (times) => {
    if (conversation === undefined) throw new Error("there is no conversation yet");
    await send(conversation, textIn(given, "question"), times);
  });
}

/** A conversation as long as the other one, sent along with every question. */
function withHistory(given: Arguments): Promise<Measured> {
  const text = textIn(given, "question");
  const history = { turns: numberIn(given, "turns"), messageBytes: numberIn(given, "messageBytes"), text };
  return timeTraffic(numberIn(given, "asked"), (times) => askWithHistory(opened().client, history, times));
}

serveCommands({ open, ask, turns, grow, goOn, withHistory });
