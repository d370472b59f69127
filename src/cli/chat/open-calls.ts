/**
 * The tool calls that are under way, and what is printed of them: a heading, the first lines of their
 * output, how they ended.
 *
 * Several may run at once and speak in turns; then each says its name before its lines.
 *
 * Invariant: of one call at most `OUTPUT_LINES_MAX` lines of output are printed; the rest is counted.
 */
import type { ToolView } from "../../client/index.ts";
import { counted } from "../terminal.ts";
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

const SIGNS = {
  done: { sign: "✓", color: "green" },
  failed: { sign: "✗", color: "red" },
  denied: { sign: "⊘", color: "yellow" },
  aborted: { sign: "■", color: "yellow" },
  unknown: { sign: "?", color: "yellow" },
} as const;

export function newOpenCalls(style: Style) {
  let open: OpenCall[] = [];
  /** Whose lines stand last on the screen. */
  let speaker: OpenCall | undefined;

  function find(toolCallId: string): OpenCall | undefined {
    return open.findLast((call) => call.toolCallId === toolCallId);
  }

  function rest(call: OpenCall): readonly string[] {
    const pending = safeOutput(call.pending);
    call.pending = "";
    const last = pending === "" ? [] : outputLines(call, [pending]);
    return [...last, ...moreLine(call.more)];
  }

  function outputLines(call: OpenCall, lines: readonly string[]): readonly string[] {
    const room = Math.max(0, OUTPUT_LINES_MAX - call.shown);
    const shown = lines.slice(0, room);
    call.shown += shown.length;
    call.more += lines.length - shown.length;
    if (shown.length === 0) return [];
    return [...speak(call), ...shown.map((line) => style.dim(cut(`  │ ${line}`)))];
  }

  /** Names the speaker, when another one spoke before. */
  function speak(call: OpenCall): readonly string[] {
    if (speaker === call) return [];
    speaker = call;
    return [style.dim(cut(`  ${call.heading}:`))];
  }

  /** The result of a tool that said nothing while it ran: in short, or more of it when it failed. */
  function quietResult(call: OpenCall, { outcome, result = "" }: ToolView): readonly string[] {
    const text = safeText(result.trim());
    if (text === "" || (outcome === "done" && call.shown > 0)) return [];
    const lines = text.split("\n");
    const shown = lines.slice(0, RESULT_LINES_MAX).map((line) => style.dim(cut(`  │ ${line}`)));
    return [...speak(call), ...shown, ...moreLine(lines.length - shown.length)];
  }

  function moreLine(more: number): readonly string[] {
    return more === 0 ? [] : [style.dim(`    … ${counted(more, "more line")}`)];
  }

  function outcomeLine({ outcome = "unknown" }: ToolView, whose: string | undefined): string {
    const words = outcome === "unknown" ? "unknown: it was started; how it ended is not known" : outcome;
    const { sign, color } = SIGNS[outcome];
    return style[color](cut(`  ${sign} ${whose === undefined ? "" : `${whose}: `}${words}`));
  }

  function cut(line: string): string {
    return cutToWidth(line, style.columns());
  }

  return {
    start({ toolCallId, tool, args }: ToolView): readonly string[] {
      const { name, about } = toolLine(tool, args);
      const heading = `${name}  ${about}`.trimEnd();
      const call: OpenCall = { toolCallId, heading, pending: "", shown: 0, more: 0 };
      open.push(call);
      speaker = call;
      const { bold, cyan, columns } = style;
      const shown = cutToWidth(about, columns() - name.length - 5);
      return [`${cyan("●")} ${bold(name)}${shown === "" ? "" : `  ${shown}`}`];
    },
    output({ toolCallId }: ToolView, text: string): readonly string[] {
      const call = find(toolCallId);
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
      return outputLines(call, whole);
    },
    progress({ toolCallId }: ToolView, text: string): readonly string[] {
      const call = find(toolCallId);
      if (call === undefined) return [];
      const lines = safeText(text)
        .split("\n")
        .filter((line) => line.trim() !== "");
      const shown = lines.map((line) => style.dim(cut(`    ${line}`)));
      return shown.length === 0 ? [] : [...speak(call), ...shown];
    },
    end(ended: ToolView): readonly string[] {
      const call = find(ended.toolCallId);
      if (call === undefined) return [outcomeLine(ended, safeLine(ended.tool))];
      const lines = [...rest(call), ...quietResult(call, ended)];
      // No other call has spoken since: it is clear whose outcome this is.
      const isClear = speaker === call && open.length === 1;
      open = open.filter((other) => other !== call);
      speaker = undefined;
      return [...lines, outcomeLine(ended, isClear ? undefined : call.heading)];
    },
    /** The turn is over: what has not ended never will. */
    endAll(): readonly string[] {
      const lines = open.flatMap((call) => rest(call));
      open = [];
      return lines;
    },
  };
}

/** Where the line that is not complete yet begins. */
function lastBreak(text: string): number {
  const end = text.endsWith("\r") ? text.length - 1 : text.length;
  return Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r", end - 1)) + 1;
}
