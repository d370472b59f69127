/**
 * Compares the turns of a conversation with its first one, and with what really happened on the machine.
 *
 * Equal but for the number of the turn; and where the outcome of a tool is not known, its effect is there once or not at
 * all.
 */
import assert from "node:assert/strict";
import { type ChatMessage, textOf, type ToolResultPart } from "../../src/protocol/chat-message.ts";

export interface TurnFindings {
  readonly turns: number;
  readonly results: number;
  readonly effects: number;
  readonly unknown: number;
}

export interface Machine {
  /** What the commands and the function have left behind, one line each. */
  readonly effects: readonly string[];
  readonly fileOf: (name: string) => string | undefined;
}

export function compareTurns(messages: readonly ChatMessage[], machine: Machine): TurnFindings {
  const counts = new Map<string, number>();
  for (const line of machine.effects) counts.set(line, (counts.get(line) ?? 0) + 1);
  for (const [line, count] of counts) assert.equal(count, 1, `C1: ${line} happened ${count} times`);
  const turns = turnsOf(messages);
  const [reference] = turns;
  assert.ok(reference !== undefined, "there is a turn");
  const results = turns.map((turn, number) => {
    assert.deepEqual(saidIn(turn, number), saidIn(reference, 0), `turn ${number} says something else`);
    return checkResults(turn, number, counts, machine);
  });
  const all = results.flat();
  const unknown = all.filter(({ outcome }) => outcome === "unknown").length;
  return { turns: turns.length, results: all.length, effects: machine.effects.length, unknown };
}

function turnsOf(messages: readonly ChatMessage[]): readonly (readonly ChatMessage[])[] {
  const turns: ChatMessage[][] = [];
  for (const message of messages) {
    if (message.role === "user") turns.push([]);
    turns.at(-1)?.push(message);
  }
  return turns;
}

/** What the model said and asked for, with the turn's number taken out. */
function saidIn(turn: readonly ChatMessage[], number: number): readonly string[] {
  return turn.map((message) => {
    if (message.role === "tool") return message.content.map(({ tool }) => tool).join(" ");
    const calls =
      message.role === "assistant" ? message.content.filter(({ type }) => type === "tool-call") : [];
    const text = textOf(message).replaceAll(`Turn ${number}:`, "Turn %:");
    return message.role === "user" ? "" : `${text} ${calls.length}`;
  });
}

/** In the order of the script: which tool leaves which trace. */
const TRACES = ["shell", "append", "write", "edit", "slow"] as const;

function checkResults(
  turn: readonly ChatMessage[],
  number: number,
  counts: ReadonlyMap<string, number>,
  { fileOf }: Machine,
): readonly ToolResultPart[] {
  const results = turn.flatMap((message) => (message.role === "tool" ? message.content : []));
  assert.equal(results.length, TRACES.length);
  const isUnknown = (name: string): boolean =>
    results[TRACES.findIndex((trace) => trace === name)]?.outcome === "unknown";
  for (const [at, { outcome, text }] of results.entries()) {
    const trace = TRACES[at] ?? "shell";
    // An edit of a file of which nobody knows whether it was written may find none.
    const mayFail = trace === "edit" && isUnknown("write");
    assert.ok(
      outcome === "done" || outcome === "unknown" || (outcome === "failed" && mayFail),
      `${trace} of turn ${number} is ${outcome}: ${text}`,
    );
    if (outcome !== "done") continue;
    if (trace === "edit") assert.equal(fileOf(`notes-${number}`), `new ${number}`);
    else if (trace !== "write")
      assert.ok(counts.has(`${trace}-${number}`), `${trace}-${number} never happened`);
  }
  return results;
}
