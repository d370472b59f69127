/**
 * A turn for its readers, one part at a time: what is new between two views.
 *
 * A part is a piece of text or thought, a tool call as it stands now, what a tool says while it runs, a question, what was used so far, a step that
 * begins, or a `retract`: a step that was cut off begins anew, and what it said does not count. A reader that appends texts and obeys `retract` shows the view's text,
 * whatever happened on the way; between two paragraphs the empty line is in the text.
 *
 * Invariant: the texts in order, each `retract` taken off their end, are `spokenText` of the view. What `settledBetween` gives is
 * never taken back.
 */
import type { AgentServerMessage, InteractionQuery } from "../protocol/messages.ts";
import { updateOf } from "./messages.ts";
import { isSameUsage, type Usage } from "./usage.ts";
import {
  type ListedTodo,
  PARAGRAPH,
  spokenText,
  type TodoView,
  type ToolView,
  type TurnEnd,
  type TurnView,
  type ViewPart,
} from "./view.ts";

/** A part that stays. */
export type SettledPart =
  /** Follows the text so far. */
  | { readonly type: "text"; readonly step: number; readonly text: string }
  | { readonly type: "thinking"; readonly step: number; readonly text: string }
  /** What the user said: what began the turn, and what was said while it ran. */
  | { readonly type: "user"; readonly text: string; readonly messageId: string }
  | ToolPart
  | ToolOutputPart
  /** The agent wants to know something, or wants a yes. `Turn.answer` answers it. */
  | { readonly type: "question"; readonly query: InteractionQuery }
  /** All that the turn has used so far, step by step. */
  | { readonly type: "usage"; readonly usage: Usage }
  /** A step begins; `attempt` 1 and above: it begins anew. */
  | { readonly type: "step"; readonly step: number; readonly attempt: number; readonly model: string }
  /** The step was cut off, and its model is asked to write on behind its text, which stays; if it does not, the step begins anew. For readers that are there when it happens. */
  | { readonly type: "continued"; readonly step: number }
  | { readonly type: "summary"; readonly text: string }
  | { readonly type: "todos"; readonly items: readonly TodoView[] }
  /** The last part. */
  | { readonly type: "end"; readonly end: TurnEnd };

/** A tool call that changed: how, and `call` as it is now. */
export interface ToolPart {
  readonly type: "tool";
  readonly change: "writing" | "started" | "over";
  readonly call: ToolView;
}

/** What a running command wrote, or a line that a tool said of its progress. */
export interface ToolOutputPart {
  readonly type: "tool-output";
  readonly call: ToolView;
  readonly text: string;
  readonly stream: "stdout" | "stderr" | "progress";
}

export interface Retract {
  readonly type: "retract";
  readonly step: number;
  /** The end of the text so far: it does not count. */
  readonly text: string;
  /** The text that still counts, all of it. */
  readonly kept: string;
  /** Everything that does not count: also what was thought, and tool calls that were being written. */
  readonly parts: readonly ViewPart[];
}

/** The connection changed. For readers that are there when it happens. */
export interface StatePart {
  readonly type: "state";
  readonly state: "connecting" | "live" | "reconnecting" | "stalled" | "degraded" | "fenced" | "ended";
  /** What stands still, or why there is no connection. */
  readonly detail: string | undefined;
}

export type TurnPart = SettledPart | Retract | StatePart;

/**
 * What a reader of `before` needs to have `after`. `heard` is the message between them, if there is one: the text that it
 * adds is passed on, instead of being cut from a text that grows.
 */
export function partsBetween(
  before: TurnView,
  after: TurnView,
  heard?: AgentServerMessage,
): readonly TurnPart[] {
  if (before === after) return [];
  const held = isSameAttempt(before, after) ? before.parts.length : keptCount(before.parts, after.parts);
  const parts: TurnPart[] = held === before.parts.length ? [] : [retract(before, held)];
  const [first] = after.userMessages;
  if (first !== undefined && before.userMessages.length === 0)
    parts.push({ type: "user", text: first.text, messageId: first.messageId });
  if (after.step !== before.step || after.attempt !== before.attempt) {
    const { step, attempt, model } = after;
    parts.push({ type: "step", step, attempt, model });
  }
  const update = heard === undefined ? undefined : updateOf(heard);
  if (update?.case === "stepContinued") parts.push({ type: "continued", step: after.step });
  for (const [at, part] of after.parts.entries()) {
    const known = at < held ? before.parts[at] : undefined;
    if (part !== known) parts.push(...news(part, after.parts.slice(0, at), known, update));
  }
  if (after.summary !== undefined && after.summary !== before.summary)
    parts.push({ type: "summary", text: after.summary });
  const items = newTodos(before, after);
  if (items !== undefined) parts.push({ type: "todos", items });
  for (const { query } of after.queries)
    if (!before.queries.some((known) => known.query.id === query.id)) parts.push({ type: "question", query });
  if (!isSameUsage(after.usage, before.usage)) parts.push({ type: "usage", usage: after.usage });
  return parts;
}

/** Undefined when the list is the same, and while one of it is known by its blob id only. */
function newTodos(before: TurnView, { todos }: TurnView): readonly TodoView[] | undefined {
  if (todos === before.todos) return undefined;
  const isSame = ({ blobId }: ListedTodo, at: number): boolean => {
    const known = before.todos[at];
    return known?.blobId === blobId && known.item !== undefined;
  };
  if (todos.length === before.todos.length && todos.every(isSame)) return undefined;
  const items = todos.map(({ item }) => item).filter((item) => item !== undefined);
  return items.length === todos.length ? items : undefined;
}

/** Within one attempt parts only grow. */
function isSameAttempt(before: TurnView, after: TurnView): boolean {
  return before.restarts === after.restarts;
}

/** How many parts of a view that may have been rolled back still stand. */
function keptCount(before: readonly ViewPart[], after: readonly ViewPart[]): number {
  const at = before.findIndex((part, index) => !isContinued(part, after[index]));
  return at === -1 ? before.length : at;
}

function isContinued(part: ViewPart, by: ViewPart | undefined): boolean {
  if (part === by) return true;
  if (part.type === "tool" || by?.type === "tool") {
    return part.type === "tool" && by?.type === "tool" && isSameCall(part, by);
  }
  return part.type === by?.type && stepOf(part) === stepOf(by) && by.text.startsWith(part.text);
}

function stepOf(part: ViewPart): number | undefined {
  return part.type === "user" ? undefined : part.step;
}

function isSameCall(a: ToolView, b: ToolView): boolean {
  return a.step === b.step && a.toolCallId === b.toolCallId;
}

function retract(view: TurnView, held: number): Retract {
  const kept = spokenText({ parts: view.parts.slice(0, held) });
  const text = spokenText(view).slice(kept.length);
  return { type: "retract", step: view.step, text, kept, parts: view.parts.slice(held) };
}

type Heard = ReturnType<typeof updateOf> | undefined;

function news(
  part: ViewPart,
  earlier: readonly ViewPart[],
  known: ViewPart | undefined,
  heard: Heard,
): readonly TurnPart[] {
  switch (part.type) {
    case "text": {
      const isFollowing = known === undefined && earlier.some(({ type }) => type === "text");
      return grown(part, isFollowing ? PARAGRAPH : "", known, heard);
    }
    case "thinking":
      return grown(part, "", known, heard);
    case "user":
      return [part];
    case "tool":
      return toolNews(part, known?.type === "tool" ? known : undefined, heard);
  }
}

function grown(
  { type, step, text: whole }: Extract<ViewPart, { type: "text" | "thinking" }>,
  gap: string,
  known: ViewPart | undefined,
  heard: Heard,
): readonly TurnPart[] {
  const seen = known === undefined || known.type === "tool" ? 0 : known.text.length;
  // The end of a thought changes its part and adds nothing.
  if (seen === whole.length) return [];
  const said = heard?.case === "textDelta" || heard?.case === "thinkingDelta" ? heard.value.text : "";
  return [{ type, step, text: gap + (seen + said.length === whole.length ? said : whole.slice(seen)) }];
}

function toolNews(
  call: ToolView,
  known: ToolView | undefined,
  heard: Heard,
): readonly (ToolPart | ToolOutputPart)[] {
  const { state } = call;
  if (state === "writing") return [{ type: "tool", change: "writing", call }];
  const parts: (ToolPart | ToolOutputPart)[] = [];
  if (known === undefined || known.state === "writing") parts.push({ type: "tool", change: "started", call });
  const written = writtenBy(call) - (known === undefined ? 0 : writtenBy(known));
  if (written > 0) {
    const stream = heard?.case === "shellOutputDelta" ? (heard.value.output.case ?? "stdout") : "stdout";
    parts.push({ type: "tool-output", call, text: call.output.slice(-written), stream });
  }
  for (const text of progressNews(call, known, heard))
    parts.push({ type: "tool-output", call, text, stream: "progress" });
  if (state === "over" && known?.state !== "over") parts.push({ type: "tool", change: "over", call });
  return parts;
}

/** Of a long list the view has only the last lines. */
function progressNews(call: ToolView, known: ToolView | undefined, heard: Heard): readonly string[] {
  if (call.progress === known?.progress) return [];
  return heard?.case === "toolCallDelta" ? [heard.value.text] : call.progress.slice(known?.progress.length);
}

/** Characters of output, over all. */
function writtenBy({ output, outputOmitted }: ToolView): number {
  return outputOmitted + output.length;
}

/** A part behind those that wait for a slow reader: they are joined, so that no more wait than the view has. */
export function queued<Part extends TurnPart>(waiting: readonly Part[], part: Part): readonly Part[] {
  if (part.type === "text" || part.type === "thinking") {
    const last = waiting.at(-1);
    if (last?.type === part.type && last.step === part.step)
      return waiting.with(waiting.length - 1, { ...part, text: last.text + part.text });
  }
  // Only the last of them counts.
  if (part.type === "state" || part.type === "usage")
    return [...waiting.filter(({ type }) => type !== part.type), part];
  if (part.type !== "tool" && part.type !== "tool-output") return [...waiting, part];
  const at = waiting.findLastIndex((other) => other.type === "retract" || isSameNews(other, part));
  const same = waiting[at];
  if (same?.type === "tool-output" && part.type === "tool-output")
    return waiting.with(at, { ...part, text: joinedText(same, part) });
  return same?.type === "tool" ? waiting.with(at, part) : [...waiting, part];
}

function isSameNews(a: TurnPart, b: ToolPart | ToolOutputPart): boolean {
  if (a.type === "tool") return b.type === "tool" && a.change === b.change && isSameCall(a.call, b.call);
  return (
    a.type === "tool-output" &&
    b.type === "tool-output" &&
    isProgress(a) === isProgress(b) &&
    isSameCall(a.call, b.call)
  );
}

function isProgress({ stream }: ToolOutputPart): boolean {
  return stream === "progress";
}

/** What both have added; of more than the view has, what the view has. */
function joinedText(before: ToolOutputPart, part: ToolOutputPart): string {
  return isProgress(part)
    ? shorter(`${before.text}\n${part.text}`, part.call.progress.join("\n"))
    : shorter(before.text + part.text, part.call.output);
}

function shorter(a: string, b: string): string {
  return a.length < b.length ? a : b;
}

/**
 * The same for a reader that cannot take anything back: a step's parts come when it is complete. What stands when a step
 * begins is never rolled back, so no `retract` is among them.
 */
export function settledBetween(before: TurnView, after: TurnView): readonly SettledPart[] {
  return partsBetween(before.mark ?? before, after.mark ?? after).filter(
    (part) => part.type !== "retract" && part.type !== "state",
  );
}
