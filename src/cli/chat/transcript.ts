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
import { newOpenCalls } from "./open-calls.ts";
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

type ToolPart = Extract<TurnPart, { type: "tool" | "tool-output" }>;

export function newTranscript({ style, showsThinking, typed, now }: TranscriptOptions) {
  /** What the user has typed and the server has not repeated yet. */
  let unheard = typed;
  let model = "";
  let block: Block = "none";
  let isMidLine = false;
  let lastText = "";
  const startedMs = now();
  const calls = newOpenCalls(style);

  function toolLines(part: ToolPart): readonly string[] {
    const { call } = part;
    if (part.type === "tool-output")
      return part.stream === "progress" ? calls.progress(call, part.text) : calls.output(call, part.text);
    switch (part.change) {
      case "started":
        return calls.start(call);
      case "over":
        return calls.end(call);
      case "writing":
        return [];
    }
  }

  /** What is needed so that the next thing begins on a line of its own. */
  function lineEnd(): string {
    if (!isMidLine) return "";
    isMidLine = false;
    return "\n";
  }

  function user(text: string): string {
    const isTyped = text === unheard;
    unheard = undefined;
    if (isTyped) return "";
    return apart(
      safeText(text)
        .split("\n")
        .map((line, at) => style.cyan(`${at === 0 ? "›" : " "} ${line}`)),
    );
  }

  function answer(text: string): string {
    lastText = block === "text" ? lastText + text : text;
    return flow("text", safeText(text), (shown) => shown);
  }

  /** Text that continues where the last piece of its kind ended. */
  function flow(kind: "text" | "thinking", text: string, paint: (text: string) => string): string {
    const isNew = block !== kind;
    const shown = isNew ? text.replace(/^\n+/, "") : text;
    if (shown === "") return "";
    const before = isNew ? between() : "";
    block = kind;
    isMidLine = !shown.endsWith("\n");
    return before + paint(shown);
  }

  /** Whole lines; apart from what stands above by an empty one, if `isApart`. */
  function whole(lines: readonly string[], isApart: boolean): string {
    if (lines.length === 0) return "";
    const before = isApart || block !== "other" ? between() : lineEnd();
    block = "other";
    return `${before}${lines.join("\n")}\n`;
  }

  function apart(lines: readonly string[]): string {
    return whole(lines, true);
  }

  function between(): string {
    const end = lineEnd();
    return block === "none" ? end : `${end}\n`;
  }

  /** A summary that the model has just written stands there already. */
  function summaryLines(text: string): readonly string[] {
    const { dim } = style;
    if (lastText.trim() === text.trim()) return [dim("This stands for everything before it now.")];
    return [dim("Summary of what was said before:"), ...dimLines(text, style)];
  }

  return {
    get model(): string {
      return model;
    },
    /** Text to append to the screen; empty when there is nothing to show. */
    render(part: TurnPart): string {
      switch (part.type) {
        case "text":
          return answer(part.text);
        case "thinking":
          return showsThinking ? flow("thinking", safeText(part.text), style.dim) : "";
        case "user":
          return user(part.text);
        case "tool":
          return whole(toolLines(part), part.change === "started");
        case "tool-output":
          return whole(toolLines(part), false);
        case "step":
          model = part.model;
          return part.attempt === 0 ? "" : apart([style.yellow(restartLine(part.attempt))]);
        case "summary":
          return apart(summaryLines(part.text));
        case "todos":
          return apart(todoLines(part.items, style));
        case "end": {
          const unfinished = whole(calls.endAll(), false);
          const elapsedMs = now() - startedMs;
          return unfinished + apart(endLines(part.end, model, elapsedMs, style));
        }
        // The step that begins anew says so; one that is continued is unbroken, and the status line says it. Others ask, count, and watch the connection.
        case "retract":
        case "continued":
        case "question":
        case "usage":
        case "state":
          return "";
      }
    },
    lineEnd,
  };
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
