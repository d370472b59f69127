/**
 * The tool calls that are under way, and what is printed of them: a heading, the first lines of their
 * output, how they ended.
 *
 * Several may run at once and speak in turns; then each says its name before its lines.
 *
 * Invariant: of one call at most `OUTPUT_LINES_MAX` lines of output are printed; the rest is counted.
 */
import type { ToolOutcomeName, ToolView } from "../../client/index.ts";
import { safeLine, safeOutput, safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { cutToWidth } from "./text-width.ts";
import { toolLine } from "./tool-words.ts";

const OUTPUT_LINES_MAX = 12;
/** What a failed tool said, and a quiet one. */
const RESULT_LINES_MAX = 4;
/** Output without line breaks is shown in lines of this many characters. */
const LINE_CHARS_MAX = 4_096;

interface OpenCall {
  readonly toolCallId: string;
  readonly heading: string;
  /** The line that is not complete yet. */
  pending: string;
  shown: number;
  more: number;
}

const SIGNS: Readonly<Record<ToolOutcomeName, string>> = {
  done: "✓",
  failed: "✗",
  denied: "⊘",
  aborted: "■",
  unknown: "?",
};

export class OpenCalls {
  readonly #style: Style;
  #open: OpenCall[] = [];
  /** Whose lines stand last on the screen. */
  #speaker: OpenCall | undefined;

  constructor(style: Style) {
    this.#style = style;
  }

  start({ toolCallId, tool, args }: ToolView): readonly string[] {
    const { name, about } = toolLine(tool, args);
    const heading = `${name}  ${about}`.trimEnd();
    const call: OpenCall = { toolCallId, heading, pending: "", shown: 0, more: 0 };
    this.#open.push(call);
    this.#speaker = call;
    const { bold, cyan, columns } = this.#style;
    const shown = cutToWidth(about, columns() - name.length - 5);
    return [`${cyan("●")} ${bold(name)}${shown === "" ? "" : `  ${shown}`}`];
  }

  output({ toolCallId }: ToolView, text: string): readonly string[] {
    const call = this.#find(toolCallId);
    if (call === undefined) return [];
    call.pending += text;
    // A lone carriage return at the end may be half of a line break: it waits for the next piece.
    const lines = safeOutput(call.pending).split("\n");
    call.pending = call.pending.slice(lastBreak(call.pending));
    const whole = lines.slice(0, -1);
    if (call.pending.length > LINE_CHARS_MAX) {
      whole.push(safeOutput(call.pending));
      call.pending = "";
    }
    return this.#outputLines(call, whole);
  }

  progress({ toolCallId }: ToolView, text: string): readonly string[] {
    const call = this.#find(toolCallId);
    if (call === undefined) return [];
    const lines = safeText(text)
      .split("\n")
      .filter((line) => line.trim() !== "");
    const shown = lines.map((line) => this.#style.dim(this.#cut(`    ${line}`)));
    return shown.length === 0 ? [] : [...this.#speak(call), ...shown];
  }

  end(ended: ToolView): readonly string[] {
    const call = this.#find(ended.toolCallId);
    if (call === undefined) return [this.#outcomeLine(ended, safeLine(ended.tool))];
    const rest = [...this.#rest(call), ...this.#quietResult(call, ended)];
    // No other call has spoken since: it is clear whose outcome this is.
    const isClear = this.#speaker === call && this.#open.length === 1;
    this.#forget(call);
    return [...rest, this.#outcomeLine(ended, isClear ? undefined : call.heading)];
  }

  /** The turn is over: what has not ended never will. */
  endAll(): readonly string[] {
    const lines = this.#open.flatMap((call) => this.#rest(call));
    this.#open = [];
    return lines;
  }

  #find(toolCallId: string): OpenCall | undefined {
    return this.#open.findLast((call) => call.toolCallId === toolCallId);
  }

  #forget(call: OpenCall): void {
    this.#open = this.#open.filter((other) => other !== call);
    this.#speaker = undefined;
  }

  #rest(call: OpenCall): readonly string[] {
    const pending = safeOutput(call.pending);
    call.pending = "";
    const last = pending === "" ? [] : this.#outputLines(call, [pending]);
    return [...last, ...this.#moreLine(call.more)];
  }

  #outputLines(call: OpenCall, lines: readonly string[]): readonly string[] {
    const room = Math.max(0, OUTPUT_LINES_MAX - call.shown);
    const shown = lines.slice(0, room);
    call.shown += shown.length;
    call.more += lines.length - shown.length;
    if (shown.length === 0) return [];
    return [...this.#speak(call), ...shown.map((line) => this.#style.dim(this.#cut(`  │ ${line}`)))];
  }

  /** Names the one who speaks, when it was another one before. */
  #speak(call: OpenCall): readonly string[] {
    if (this.#speaker === call) return [];
    this.#speaker = call;
    return [this.#style.dim(this.#cut(`  ${call.heading}:`))];
  }

  /** What a tool that said nothing while it ran told the model: in short, or more of it when it failed. */
  #quietResult(call: OpenCall, { outcome, result = "" }: ToolView): readonly string[] {
    const text = safeText(result.trim());
    if (text === "" || (outcome === "done" && call.shown > 0)) return [];
    const lines = text.split("\n");
    const shown = lines.slice(0, RESULT_LINES_MAX).map((line) => this.#style.dim(this.#cut(`  │ ${line}`)));
    return [...this.#speak(call), ...shown, ...this.#moreLine(lines.length - shown.length)];
  }

  #moreLine(more: number): readonly string[] {
    return more === 0 ? [] : [this.#style.dim(`    … ${more} more ${more === 1 ? "line" : "lines"}`)];
  }

  #outcomeLine({ outcome = "unknown" }: ToolView, whose: string | undefined): string {
    const words = outcome === "unknown" ? "unknown: it was started, and nobody knows how it ended" : outcome;
    const line = this.#cut(`  ${SIGNS[outcome]} ${whose === undefined ? "" : `${whose}: `}${words}`);
    switch (outcome) {
      case "done":
        return this.#style.green(line);
      case "failed":
        return this.#style.red(line);
      case "denied":
      case "aborted":
      case "unknown":
        return this.#style.yellow(line);
    }
  }

  #cut(line: string): string {
    return cutToWidth(line, this.#style.columns());
  }
}

/** Where the line that is not complete yet begins. */
function lastBreak(text: string): number {
  const end = text.endsWith("\r") ? text.length - 1 : text.length;
  return Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r", end - 1)) + 1;
}
