/**
 * What a simulated provider writes in answer to one request, drawn by the seed when it is asked; and what has become of it.
 *
 * Each generation is another one: no two say the same, so text of two of them that was taken for one is noticed. Words and white space are
 * cut into pieces anywhere, also within a character.
 *
 * Invariant: what it says is fixed when it begins. Time decides only how much of it was said.
 */
import type { ModelCall, ModelPart } from "../../src/agent/index.ts";
import { textOf } from "../../src/protocol/chat-message.ts";
import type { Random, SimProcess } from "./world/index.ts";

/** What a model makes of the beginning of its answer: writes on behind it, begins anew, writes what it likes, or refuses the request. */
export type Nature = "continues" | "begins_anew" | "varies" | "refuses";

/** Who reads a generation: the host of a stream, in one life of its process. */
export interface Reader {
  readonly process: SimProcess;
  readonly epoch: number;
  wake: () => void;
}

export interface Written {
  readonly parts: readonly ModelPart[];
  /** The whole text of the answer, with what it was given as its beginning. */
  readonly text: string;
  /** The arguments of its tool calls. */
  readonly calls: readonly string[];
}

export interface Generation extends Written {
  readonly conversationId: string;
  /** How many answers the prompt has: equal for all requests of a step. */
  readonly answers: number;
  /** Of a degraded stream, the step in the memory of its run: a connection that the network repeats is another degraded stream. */
  readonly degradedStep: object | undefined;
  /** Under which the line holds it; undefined: it ends with its process. */
  name: string | undefined;
  /** The provider breaks off behind so many parts. */
  readonly breaksAt: number;
  /** How many parts were said. */
  said: number;
  state: "running" | "whole" | "broken" | "stopped" | "expired";
  /** Of its last reader. */
  epoch: number;
  reader: Reader | undefined;
  /** Its reader was gone without a word, as one is that died. */
  wasOrphaned: boolean;
  /** Its last reader has let it go on by itself. */
  wasLetGo: boolean;
  /** It was stopped because a signal fired, and no user had said so. */
  wasAborted: boolean;
  attaches: number;
  /** This part is missing when it is read again. */
  gapAt: number | undefined;
}

const STEPS_MAX = 4;
const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const SPACES = [" ", " ", " ", "\n", "\n\n", "  ", " \n"];

/** A generation of its own. Each of its words begins with `mark`: what is written behind the text of another one never looks like its continuation by chance. */
export function written(random: Random, { messages, tools }: ModelCall, mark = ""): Written {
  const isEndless = messages.some(
    (message) => message.role === "user" && textOf(message).includes("endless"),
  );
  const asked = messages.findLastIndex(({ role }) => role === "user");
  const isLate = messages.length - asked > STEPS_MAX;
  const text = tools.length === 0 || random.chance(0.85) ? words(random, mark) : "";
  const count = tools.length === 0 ? 0 : isEndless ? 1 : isLate ? 0 : random.int(3);
  const calls = Array.from({ length: count }, () => toolCall(random, isEndless));
  return {
    parts: [
      ...(random.chance(0.3) ? thought(random) : []),
      ...textParts(random, text),
      ...callParts(random, calls),
    ],
    text,
    calls: calls.map(([, args]) => args),
  };
}

/** The same answer, written on behind its beginning. */
export function continuing(random: Random, origin: Written, beginning: string, tools: boolean): Written {
  const { text } = origin;
  const rest = text.slice(beginning.length);
  const calls = Array.from({ length: tools ? random.int(2) : 0 }, () => toolCall(random, false));
  return {
    // Some providers trim what a model begins with.
    parts: [...textParts(random, random.chance(0.4) ? rest.trimStart() : rest), ...callParts(random, calls)],
    text,
    calls: calls.map(([, args]) => args),
  };
}

function words(random: Random, mark: string): string {
  const count = 3 + random.int(12);
  const said = Array.from({ length: count }, () => `${mark}${word(random)}${random.pick(SPACES)}`).join("");
  return random.chance(0.7) ? said.trimEnd() : said;
}

function word(random: Random): string {
  const letters = random.uint32().toString(36);
  return random.chance(0.1) ? `${letters}🙂${letters}` : letters;
}

/** Cut anywhere. */
function textParts(random: Random, text: string): readonly ModelPart[] {
  const parts: ModelPart[] = [];
  for (let at = 0; at < text.length;) {
    const end = at + 1 + random.int(14);
    parts.push({ kind: "text", text: text.slice(at, end) });
    at = end;
  }
  return parts;
}

function callParts(random: Random, calls: readonly (readonly [string, string])[]): readonly ModelPart[] {
  const parts = calls.flatMap(([tool, args], at): readonly ModelPart[] => {
    const toolCallId = `call_${at}`;
    const half = 1 + random.int(args.length - 1);
    return [
      { kind: "tool_call_delta", toolCallId, tool, args: args.slice(0, half) },
      { kind: "tool_call_delta", toolCallId, tool, args: args.slice(half) },
      { kind: "tool_call", toolCallId, tool, args },
    ];
  });
  return [...parts, { kind: "finish", reason: calls.length > 0 ? "tool_calls" : "stop", usage: USAGE }];
}

function thought(random: Random): readonly ModelPart[] {
  const text = `hm ${word(random)} `;
  return [
    { kind: "thinking", text },
    { kind: "thinking", text },
    { kind: "thinking_end", metadata: { simulated: { signature: text } } },
  ];
}

function toolCall(random: Random, isEndless: boolean): readonly [string, string] {
  const token = `${random.uint32().toString(36)}${random.uint32().toString(36)}`;
  const todos = { todos: [{ id: token, text: "more", status: "pending" }] };
  const choices: readonly (readonly [string, unknown])[] = [
    ["shell", { command: `work ${token}` }],
    ["read", { path: token }],
    ["todo_write", todos],
  ];
  const [tool, args] = isEndless ? (["todo_write", todos] as const) : random.pick(choices);
  return [tool, JSON.stringify(args)];
}
