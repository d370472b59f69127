/**
 * `--json`: one object per line for each thing that happens, with names that stay.
 *
 * Texts are whole and as they came: a program reads them. JSON escapes control characters, and we those that it leaves
 * alone though some terminals obey them.
 */
import type { ShownStatus } from "./status-text.ts";
import { troubleText } from "./status-text.ts";
import type { TurnPart } from "../../client/index.ts";
import { parsedJson } from "../../protocol/fields.ts";
import { TodoStatus } from "../../protocol/messages.ts";

/** How the command ended; the last line. */
export interface Result {
  readonly type: "result";
  readonly outcome: "completed" | "aborted" | "failed" | "lost";
  readonly exitCode: number;
  readonly text: string;
  readonly conversation: string;
  readonly model: string;
  readonly usage: object;
  readonly durationMs: number;
  readonly failure: { readonly kind: string; readonly message: string } | null;
}

export function jsonLine(value: Result | object): string {
  const json = JSON.stringify(value).replace(
    /[\u007f-\u009f]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${json}\n`;
}

/** Undefined for what only matters on a screen. */
export function jsonOf(part: TurnPart): object | undefined {
  switch (part.type) {
    case "user":
    case "text":
    case "thinking":
    case "summary":
      return { type: part.type, text: part.text };
    case "step": {
      const { step, attempt, model } = part;
      return attempt === 0
        ? { type: "step_started", step, model }
        : { type: "step_restarted", step, attempt };
    }
    case "continued":
      return { type: "step_continued", step: part.step };
    case "tool":
      return jsonOfTool(part);
    case "todos":
      return {
        type: "todos",
        items: part.items.map(({ text, status }) => ({ text, status: TODO_WORDS[status] ?? "pending" })),
      };
    case "tool-output": {
      const { toolCallId, execIds } = part.call;
      return part.stream === "progress"
        ? { type: "tool_progress", toolCallId, text: part.text }
        : { type: "tool_output", execId: execIds[0] ?? "", stream: part.stream, text: part.text };
    }
    // The end has the usage, a person answers questions, and the status has lines of its own.
    case "usage":
    case "question":
    case "state":
    case "retract":
    case "end":
      return undefined;
  }
}

const TODO_WORDS: Readonly<Partial<Record<TodoStatus, string>>> = {
  [TodoStatus.IN_PROGRESS]: "in_progress",
  [TodoStatus.COMPLETED]: "completed",
  [TodoStatus.CANCELLED]: "cancelled",
};

function jsonOfTool(part: Extract<TurnPart, { type: "tool" }>): object | undefined {
  const { toolCallId, tool, args, outcome, result = "" } = part.call;
  switch (part.change) {
    case "started": {
      const json = parsedJson(args);
      return { type: "tool_started", toolCallId, tool, args: json === undefined ? args : json };
    }
    case "over":
      return { type: "tool_ended", toolCallId, tool, outcome, result };
    case "writing":
      return undefined;
  }
}

export function jsonStatus(status: ShownStatus): object {
  return { type: "status", state: status.state, detail: troubleText(status) ?? null };
}
