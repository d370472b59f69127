/**
 * Which result belongs to which call.
 *
 * Ids repeat over a conversation (some clients count from 0 in every step), so a result belongs to a call of the last
 * assistant message before it, and to no other.
 */
import type { AssistantLine, LineMessage, ToolLine } from "./line.ts";

/** An assistant message and everything up to the next one; the first window may have none. */
export interface Window {
  readonly assistant: AssistantLine | undefined;
  /** In the order of the calls, each with what came for it: none, one, or several. */
  readonly results: readonly (readonly ToolLine[])[];
  /** The others, in order: what the user said, and results without a call. */
  readonly others: readonly LineMessage[];
}

export function windowsOf(messages: readonly LineMessage[]): readonly Window[] {
  const windows: Window[] = [];
  let assistant: AssistantLine | undefined;
  let followed: LineMessage[] = [];
  for (const message of messages) {
    if (message.role !== "assistant") {
      followed.push(message);
      continue;
    }
    if (assistant !== undefined || followed.length > 0) windows.push(windowOf(assistant, followed));
    assistant = message;
    followed = [];
  }
  if (assistant !== undefined || followed.length > 0) windows.push(windowOf(assistant, followed));
  return windows;
}

function windowOf(assistant: AssistantLine | undefined, followed: readonly LineMessage[]): Window {
  const results = new Map<string, ToolLine[]>(assistant?.toolCalls.map(({ id }) => [id, []]));
  const others: LineMessage[] = [];
  for (const message of followed) {
    const mine = message.role === "tool" ? results.get(message.toolCallId) : undefined;
    if (message.role === "tool" && mine !== undefined) mine.push(message);
    else others.push(message);
  }
  return { assistant, results: [...results.values()], others };
}

export interface Placed {
  readonly message: LineMessage;
  /** See `levelled`. */
  readonly position: number;
}

/** Results move behind their calls, in their order; two results of a call in the same words count once. */
export function inCallOrder(messages: readonly LineMessage[]): readonly Placed[] {
  const placed: Placed[] = [];
  for (const { assistant, results, others } of windowsOf(messages)) {
    if (assistant !== undefined) placed.push({ message: assistant, position: 0 });
    for (const [position, lines] of results.entries()) {
      for (const message of withoutRepeats(lines)) placed.push({ message, position });
    }
    for (const message of others) placed.push({ message, position: message.role === "tool" ? -1 : 0 });
  }
  return placed;
}

/** Clients that retry have been seen to send a result twice. */
export function withoutRepeats(lines: readonly ToolLine[]): readonly ToolLine[] {
  return lines.filter((line, at) => lines.findIndex((other) => isSame(other, line)) === at);
}

function isSame(a: ToolLine, b: ToolLine): boolean {
  if (a === b) return true;
  return a.text.trim() === b.text.trim() && a.files.length === 0 && b.files.length === 0;
}
