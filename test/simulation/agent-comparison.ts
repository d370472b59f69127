/**
 * Compares a conversation in which something died with the same one in which nothing did.
 *
 * Everything is equal, with two exceptions that the guarantees allow: one model call more when the server died,
 * and `unknown` where the client died while a tool ran (C2).
 */
import assert from "node:assert/strict";
import type { ChatMessage, ToolResultPart } from "../../src/protocol/chat-message.ts";
import { type AgentCrash, type Conversed, converse, type ConverseOptions } from "./agent-scenario.ts";

/** Throws when the crash has cost more than it may. */
export async function checkCrash(
  options: ConverseOptions,
  crash: AgentCrash,
  whole: Conversed,
): Promise<Conversed> {
  try {
    const ended = await converse(options, crash);
    compare(crash, ended, whole);
    return ended;
  } catch (cause) {
    const where = "effect" in crash ? `${crash.when} call ${crash.effect}` : `at event ${crash.event}`;
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`seed ${options.seed}, a crash of the ${crash.who} ${where}: ${what}`, { cause });
  }
}

function compare({ who }: AgentCrash, ended: Conversed, whole: Conversed): void {
  const { unknown } = ended;
  assert.ok(ended.crashes <= whole.crashes + 1, "one crash, and everything else lives");
  assert.deepEqual(ended.texts, whole.texts, "the text is the same, without what was rolled back");
  assert.equal(ended.turns, whole.turns, "all turns are kept");
  const calls = whole.prompts.length + (who === "server" ? 1 : 0);
  assert.ok(ended.prompts.length <= calls, `the model was called ${ended.prompts.length} times`);
  assert.ok(ended.restarts <= (who === "server" ? 1 : 0), "only a step that was cut off is restarted");
  assert.deepEqual(knownOf(ended.messages, whole.messages), whole.messages, "the messages are the same");
  if (who === "server") assert.equal(unknown, 0, "a server's crash costs no outcome");
  if (unknown > 0) return checkUnknown(ended, whole);
  assert.equal(ended.execs, whole.execs, "each exec is asked for once");
  assert.deepEqual(ended.commands.toSorted(), whole.commands.toSorted());
  assert.deepEqual(ended.files, whole.files);
}

/** What is not known may have happened, once; the rest has. */
function checkUnknown(ended: Conversed, whole: Conversed): void {
  const commands = new Set(ended.commands);
  assert.equal(commands.size, ended.commands.length, "no command ran twice");
  const missing = whole.commands.filter((command) => !commands.has(command));
  assert.ok(missing.length <= ended.unknown, `${missing.join(", ")} never ran, and nobody was told`);
}

/** The messages, with what they do not know taken from those that do. */
function knownOf(messages: readonly ChatMessage[], whole: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.map((message, at) => {
    const other = whole[at];
    if (message.role !== "tool" || other?.role !== "tool") return message;
    const content = message.content.map((part, place): ToolResultPart =>
      part.outcome === "unknown" ? (other.content[place] ?? part) : part,
    );
    return { ...message, content };
  });
}
