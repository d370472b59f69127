/**
 * `--json`: one object per line for each thing that happens, with names that stay.
 *
 * Texts are whole and as they came: a program reads them. JSON escapes control characters, and we those that it leaves
 * alone though some terminals obey them.
 */
import type { ShownStatus } from "./status-text.ts";
import { troubleText } from "./status-text.ts";
import type { Happening } from "./happening.ts";

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
export function jsonOf(happening: Happening): object | undefined {
  switch (happening.kind) {
    case "user":
      return { type: "user", text: happening.text };
    case "step_started":
      return { type: "step_started", step: happening.step, model: happening.model };
    case "step_restarted":
      return { type: "step_restarted", step: happening.step, attempt: happening.attempt };
    case "text":
    case "thinking":
    case "summary":
      return { type: happening.kind, text: happening.text };
    case "tool_started": {
      const { toolCallId, tool, args } = happening;
      return { type: "tool_started", toolCallId, tool, args: parsed(args) };
    }
    case "output": {
      const text = new TextDecoder().decode(happening.bytes);
      return { type: "tool_output", execId: happening.execId, stream: happening.stream, text };
    }
    case "progress":
      return { type: "tool_progress", toolCallId: happening.toolCallId, text: happening.text };
    case "tool_ended": {
      const { toolCallId, tool, outcome, result } = happening;
      return { type: "tool_ended", toolCallId, tool, outcome, result };
    }
    case "todos":
      return { type: "todos", items: happening.items };
    case "thinking_done":
    case "tool_writing":
    case "ended":
      return undefined;
  }
}

export function jsonStatus(status: ShownStatus): object {
  return { type: "status", state: status.state, detail: troubleText(status) ?? null };
}

/** The model's arguments, as an object where they are one; what is no JSON stays the text that it is. */
function parsed(args: string): unknown {
  try {
    const value: unknown = JSON.parse(args);
    return value;
  } catch {
    return args;
  }
}
