/**
 * An OpenAI client's load: answers one at a time, many at a time, and tool results after a history.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { TOOL, writeQuestion } from "../harness/question.ts";
import { AnswerTimes, summaryOf } from "./answer-times.ts";
import { type Asked, askedOf, bodyOf, type ChatMessage, complete, userSays } from "./chat-completions.ts";
import { doorOf, questionBy } from "./doors.ts";

/** No request repeats another: that would be a retry, and answered otherwise. */
let asked = 0;

/** Between two questions, so that what a server does behind an answer is not counted for the next one. */
const PAUSE_MS = 10;

function whoIn(given: Arguments): Asked {
  const port = numberIn(given, "port");
  const who = askedOf(textIn(given, "kind"), port, numberIn(given, "providerPort"), textIn(given, "apiKey"));
  return { ...who, door: doorOf(given["door"]) };
}

async function answer(who: Asked, question: string): Promise<AnswerTimes> {
  const body = questionBy(who.door ?? "chat", who.model, `${asked++}: ${question}`);
  const times = new AnswerTimes();
  const { finish } = await complete(who, body, times);
  if (finish !== "stop") throw new Error(`an answer ended with ${finish}`);
  return times;
}

/** One at a time; the first ones only warm the code. */
async function timed(given: Arguments, once: () => Promise<AnswerTimes>): Promise<Measured> {
  const answers: AnswerTimes[] = [];
  for (let at = 0; at < numberIn(given, "warmUps"); at++) await once();
  for (let at = 0; at < numberIn(given, "asked"); at++) {
    await sleep(PAUSE_MS);
    answers.push(await once());
  }
  return summaryOf(answers);
}

function ask(given: Arguments): Promise<Measured> {
  const who = whoIn(given);
  const question = textIn(given, "question");
  return timed(given, () => answer(who, question));
}

/** So many at a time, as fast as they are answered. */
async function rate(given: Arguments): Promise<Measured> {
  const who = whoIn(given);
  const question = textIn(given, "question");
  const endsMs = performance.now() + numberIn(given, "measureMs");
  const busy = busyMeter();
  const startedMs = performance.now();
  let answers = 0;
  const one = async (): Promise<void> => {
    for (; performance.now() < endsMs; answers++) await answer(who, question);
  };
  await Promise.all(Array.from({ length: numberIn(given, "atOnce") }, one));
  const perSecond = (answers * 1_000) / (performance.now() - startedMs);
  return { answers, perSecond, loadBusy: busy()["busy"] ?? Number.NaN };
}

/** So many answers in all, so many of them at a time, as fast as they are answered. */
async function many(given: Arguments): Promise<Measured> {
  const who = whoIn(given);
  const question = textIn(given, "question");
  const count = numberIn(given, "count");
  let left = count;
  const startedMs = performance.now();
  const one = async (): Promise<void> => {
    while (left-- > 0) await answer(who, question);
  };
  await Promise.all(Array.from({ length: numberIn(given, "atOnce") }, one));
  return { perSecond: (count * 1_000) / (performance.now() - startedMs) };
}

/** Questions and answers of about 200 bytes; no two histories have a message in common. */
function historyOf(messages: number): readonly ChatMessage[] {
  const id = asked++;
  return Array.from({ length: messages }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `${id} ${at} `.padEnd(200, "words and "),
  }));
}

interface Waiting {
  readonly who: Asked;
  readonly messages: readonly ChatMessage[];
  readonly toolCallId: string;
}

/** The first half of a turn: the model asks for its tool, and whoever answers it waits. */
async function callTool(who: Asked, history: readonly ChatMessage[], question: string): Promise<Waiting> {
  const messages = [...history, userSays(`${asked++}: ${question}`)];
  const { toolCallIds, finish } = await complete(who, bodyOf(who.model, messages, true), new AnswerTimes());
  const [toolCallId] = toolCallIds;
  if (toolCallId === undefined || finish !== "tool_calls") throw new Error("no tool was called");
  return { who, messages, toolCallId };
}

/** The second half: the result goes in, and the answer comes. */
function toolAnswered({ who, messages, toolCallId }: Waiting): Buffer {
  const call = { id: toolCallId, type: "function", function: { name: TOOL, arguments: '{"n":0}' } };
  const said: readonly ChatMessage[] = [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: toolCallId, content: "ticked" },
  ];
  return bodyOf(who.model, [...messages, ...said], true);
}

async function finishTurn(who: Asked, body: Buffer): Promise<AnswerTimes> {
  const times = new AnswerTimes();
  const { finish } = await complete(who, body, times);
  if (finish !== "stop") throw new Error(`a turn ended with ${finish}`);
  return times;
}

/** From the tool's result to the first token. The requests before it are not counted. */
async function continues(given: Arguments): Promise<Measured> {
  const who = whoIn(given);
  const length = numberIn(given, "messages");
  const question = writeQuestion({ steps: 1, tokens: 2, messageUs: numberIn(given, "messageUs") });
  let bodyBytes = 0;
  const once = async (): Promise<AnswerTimes> => {
    const body = toolAnswered(await callTool(who, historyOf(length), question));
    bodyBytes = body.length;
    await sleep(PAUSE_MS);
    return finishTurn(who, body);
  };
  return { ...(await timed(given, once)), bodyBytes };
}

let waiting: Waiting[] = [];

/** Turns that wait for the result of a tool, some for each principal. */
async function park(given: Arguments): Promise<Measured> {
  const history = historyOf(numberIn(given, "messages"));
  const perPrincipal = numberIn(given, "perPrincipal");
  const question = writeQuestion({ steps: 1 });
  const parked = waiting.length;
  for (let at = parked; at < parked + numberIn(given, "sessions"); at++) {
    const who = whoIn({ ...given, apiKey: `principal-${Math.floor(at / perPrincipal)}` });
    waiting.push(await callTool(who, history, question));
  }
  return { parked: waiting.length };
}

/** Each gets its result; returns how many were answered. */
async function answerParked(): Promise<Measured> {
  const all = waiting;
  waiting = [];
  const startedMs = performance.now();
  for (const parked of all) await finishTurn(parked.who, toolAnswered(parked));
  return { answered: all.length, meanMs: (performance.now() - startedMs) / all.length };
}

/** What a client would send again when it does not know whether its answer came. */
let kept: { readonly body: Buffer; readonly text: string } | undefined;

/** An answer that is asked for once more by `repeat`. */
async function keep(given: Arguments): Promise<Measured> {
  const who = whoIn(given);
  const body = bodyOf(who.model, [userSays(`${asked++}: ${textIn(given, "question")}`)], false);
  const { text } = await complete(repeatable(who), body, new AnswerTimes());
  kept = { body, text };
  return {};
}

/** The same request again; the answer must be the same. */
async function repeat(given: Arguments): Promise<Measured> {
  if (kept === undefined) throw new Error("nothing was kept");
  const { text } = await complete(repeatable(whoIn(given)), kept.body, new AnswerTimes());
  if (text === "" || text !== kept.text) throw new Error("a retry got another answer");
  return {};
}

function repeatable(who: Asked): Asked {
  return { ...who, headers: { ...who.headers, "idempotency-key": "kept" } };
}

serveCommands({ ask, many, rate, continues, park, answerParked, keep, repeat });
