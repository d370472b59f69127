/**
 * The transcript of a turn: what is printed for each thing that happens, and nothing else.
 *
 * It only ever appends. What a step had said before it began anew cannot be unprinted, so the transcript says that it
 * counts no longer. It returns text and writes nothing, so that the same input always reads the same.
 *
 * Invariant: everything that comes from a model or a tool passes through `safe-text.ts` on its way out.
 */
import type { TodoView, TurnPart } from "../../client/index.ts";
import { TodoStatus } from "../../protocol/messages.ts";
import { OpenCalls } from "./open-calls.ts";
import { safeLine, safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { endLines } from "./turn-end-text.ts";

interface TranscriptOptions {
  readonly style: Style;
  readonly showsThinking: boolean;
  /** What the user has just typed: it stands on the screen already. */
  readonly typed: string | undefined;
  readonly now: () => number;
}

type Block = "none" | "text" | "thinking" | "other";

const TODO_SIGNS: Readonly<Record<TodoStatus, string>> = {
  [TodoStatus.UNSPECIFIED]: "☐",
  [TodoStatus.PENDING]: "☐",
  [TodoStatus.IN_PROGRESS]: "◐",
  [TodoStatus.COMPLETED]: "☑",
  [TodoStatus.CANCELLED]: "☒",
};

type ToolPart = Extract<TurnPart, { kind: "tool" }>;

export class Transcript {
  readonly #style: Style;
  readonly #showsThinking: boolean;
  readonly #now: () => number;
  readonly #startedMs: number;
  readonly #calls: OpenCalls;
  #typed: string | undefined;
  #model = "";
  #block: Block = "none";
  #isMidLine = false;
  #lastText = "";

  constructor({ style, showsThinking, typed, now }: TranscriptOptions) {
    this.#style = style;
    this.#showsThinking = showsThinking;
    this.#typed = typed;
    this.#now = now;
    this.#startedMs = now();
    this.#calls = new OpenCalls(style);
  }

  get model(): string {
    return this.#model;
  }

  /** Text to append to the screen; empty when there is nothing to show. */
  render(part: TurnPart): string {
    switch (part.kind) {
      case "text":
        return this.#text(part.text);
      case "thinking":
        return this.#showsThinking ? this.#flow("thinking", safeText(part.text), this.#style.dim) : "";
      case "user":
        return this.#user(part.text);
      case "tool":
        return this.#lines(this.#toolLines(part), part.change === "started");
      case "step":
        this.#model = part.model;
        return part.attempt === 0 ? "" : this.#lines([this.#style.yellow(restartLine(part.attempt))], true);
      case "summary":
        return this.#lines(this.#summaryLines(part.text), true);
      case "todos":
        return this.#lines(todoLines(part.items, this.#style), true);
      case "end": {
        const unfinished = this.#lines(this.#calls.endAll(), false);
        const elapsedMs = this.#now() - this.#startedMs;
        return unfinished + this.#lines(endLines(part.end, this.#model, elapsedMs, this.#style), true);
      }
      // The step that begins anew says so.
      case "retract":
        return "";
    }
  }

  #toolLines(part: ToolPart): readonly string[] {
    const { call } = part;
    switch (part.change) {
      case "started":
        return this.#calls.start(call);
      case "output":
        return this.#calls.output(call, part.text);
      case "progress":
        return this.#calls.progress(call, part.text);
      case "over":
        return this.#calls.end(call);
      case "writing":
        return [];
    }
  }

  /** What is needed so that the next thing begins on a line of its own. */
  lineEnd(): string {
    if (!this.#isMidLine) return "";
    this.#isMidLine = false;
    return "\n";
  }

  #user(text: string): string {
    const isTyped = text === this.#typed;
    this.#typed = undefined;
    if (isTyped) return "";
    const lines = safeText(text).split("\n");
    return this.#lines(
      lines.map((line, at) => this.#style.cyan(`${at === 0 ? "›" : " "} ${line}`)),
      true,
    );
  }

  #text(text: string): string {
    this.#lastText = this.#block === "text" ? this.#lastText + text : text;
    return this.#flow("text", safeText(text), (shown) => shown);
  }

  /** Text that goes on where the last piece of its kind ended. */
  #flow(block: "text" | "thinking", text: string, paint: (text: string) => string): string {
    const isNew = this.#block !== block;
    const shown = isNew ? text.replace(/^\n+/, "") : text;
    if (shown === "") return "";
    const before = isNew ? this.#between() : "";
    this.#block = block;
    this.#isMidLine = !shown.endsWith("\n");
    return before + paint(shown);
  }

  /** Whole lines; apart from what stands above by an empty one, if `isApart`. */
  #lines(lines: readonly string[], isApart: boolean): string {
    if (lines.length === 0) return "";
    const before = isApart || this.#block !== "other" ? this.#between() : this.lineEnd();
    this.#block = "other";
    return `${before}${lines.join("\n")}\n`;
  }

  #between(): string {
    const end = this.lineEnd();
    return this.#block === "none" ? end : `${end}\n`;
  }

  /** A summary that the model has just written stands there already. */
  #summaryLines(text: string): readonly string[] {
    const { dim } = this.#style;
    if (this.#lastText.trim() === text.trim()) return [dim("This stands for everything before it now.")];
    return [dim("Summary of what was said before:"), ...dimLines(text, this.#style)];
  }
}

export function restartLine(attempt: number): string {
  const words = "the model was cut off and begins this step anew; what it said in it above is void";
  return `↻ ${words} (restart ${attempt} of at most 3)`;
}

export function todoLines(
  items: readonly Pick<TodoView, "text" | "status">[],
  style: Style,
): readonly string[] {
  return items.map(({ text, status }) => {
    const line = `  ${TODO_SIGNS[status]} ${safeLine(text)}`;
    return status === TodoStatus.COMPLETED || status === TodoStatus.CANCELLED ? style.dim(line) : line;
  });
}

function dimLines(text: string, { dim }: Style): readonly string[] {
  return safeText(text.trim())
    .split("\n")
    .map((line) => dim(line));
}
