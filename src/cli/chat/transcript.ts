/**
 * The transcript of a turn: what is printed for each thing that happens, and nothing else.
 *
 * It only ever appends. A step that is restarted cannot be unprinted, so the transcript says that it
 * counts no longer. It returns text and writes nothing, so that the same input always reads the same.
 *
 * Invariant: everything that comes from a model or a tool passes through `safe-text.ts` on its way out.
 */
import type { Happening, Todo } from "./happening.ts";
import { OpenCalls } from "./open-calls.ts";
import { safeLine, safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { endLines } from "./turn-end-text.ts";

export interface TranscriptOptions {
  readonly style: Style;
  readonly showsThinking: boolean;
  /** What the user has just typed: it stands on the screen already. */
  readonly typed: string | undefined;
  readonly now: () => number;
}

type Block = "none" | "text" | "thinking" | "other";

const TODO_SIGNS: Readonly<Record<Todo["status"], string>> = {
  pending: "☐",
  in_progress: "◐",
  completed: "☑",
  cancelled: "☒",
};

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
  render(happening: Happening): string {
    switch (happening.kind) {
      case "text":
        return this.#text(happening.text);
      case "thinking":
        return this.#showsThinking ? this.#flow("thinking", safeText(happening.text), this.#style.dim) : "";
      case "user":
        return this.#user(happening.text);
      case "tool_started":
        return this.#lines(this.#calls.start(happening), true);
      case "output":
        return this.#lines(this.#calls.output(happening), false);
      case "progress":
        return this.#lines(this.#calls.progress(happening), false);
      case "tool_ended":
        return this.#lines(this.#calls.end(happening), false);
      case "step_started":
        this.#model = happening.model;
        return "";
      case "step_restarted":
        return this.#lines([this.#restartLine(happening.attempt)], true);
      case "summary":
        return this.#lines(this.#summaryLines(happening.text), true);
      case "todos":
        return this.#lines(todoLines(happening.items, this.#style), true);
      case "ended": {
        const unfinished = this.#lines(this.#calls.endAll(), false);
        const elapsedMs = this.#now() - this.#startedMs;
        return unfinished + this.#lines(endLines(happening, this.#model, elapsedMs, this.#style), true);
      }
      case "thinking_done":
      case "tool_writing":
        return "";
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

  #restartLine(attempt: number): string {
    const words = "the model was cut off and begins this step anew; what it said in it above is void";
    return this.#style.yellow(`↻ ${words} (restart ${attempt} of at most 3)`);
  }
}

export function todoLines(items: readonly Todo[], style: Style): readonly string[] {
  return items.map(({ text, status }) => {
    const line = `  ${TODO_SIGNS[status]} ${safeLine(text)}`;
    return status === "completed" || status === "cancelled" ? style.dim(line) : line;
  });
}

function dimLines(text: string, { dim }: Style): readonly string[] {
  return safeText(text.trim())
    .split("\n")
    .map((line) => dim(line));
}
