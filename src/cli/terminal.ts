/**
 * Where a command writes, and how: plain lines, tables, a little colour where there is a person.
 *
 * Results go to standard output, so that they can be piped; everything said about them goes to
 * standard error. Colour needs a terminal and no NO_COLOR. Text that comes from data is shown with its
 * control characters made visible: a stored name must not steer the terminal.
 */
import { stripVTControlCharacters } from "node:util";
import { styleOf } from "./chat/style.ts";
import { textWidth } from "./chat/text-width.ts";

/** The part of a stream that is needed; process.stdout has it. */
export interface Screen {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export interface Terminal {
  /** A line of the result. */
  readonly print: (line: string) => void;
  /** A line about the result. */
  readonly note: (line: string) => void;
  readonly bold: Paint;
  readonly dim: Paint;
}

export type Paint = (text: string) => string;

export interface Surroundings {
  readonly stdout: Screen;
  readonly stderr: Screen;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly platform: NodeJS.Platform;
  /** How the user runs `holdfast`, for messages to paste from. */
  readonly command: string;
  readonly now: () => number;
}

export function terminal({ stdout, stderr, env }: Surroundings): Terminal {
  const { bold, dim } = styleOf(stdout, env);
  return {
    print: (line) => {
      stdout.write(`${line}\n`);
    },
    note: (line) => {
      stderr.write(`${line}\n`);
    },
    bold,
    dim,
  };
}

const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ud800-\udfff]/gu;

/** One line of text from data, safe to show. */
export function visible(text: string): string {
  return text.replace(STEERING, (char) => {
    if (char === "\n") return "⏎";
    if (char === "\t") return " ";
    // Zero-width joiners hold emoji together.
    if (char === "\u200d") return char;
    return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

/** Columns as wide as their widest cell; the head is bold. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { bold }: Pick<Terminal, "bold">,
): readonly string[] {
  const widths = head.map((title, at) =>
    Math.max(title.length, ...rows.map((row) => widthOf(row[at] ?? ""))),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cell + " ".repeat(Math.max(0, (widths[at] ?? 0) - widthOf(cell))))
      .join("  ")
      .trimEnd();
  return [bold(line(head)), ...rows.map(line)];
}

function widthOf(cell: string): number {
  return textWidth(stripVTControlCharacters(cell));
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** For people: the largest unit that fits and the next one, rounded down. */
export function duration(durationMs: number): string {
  const at = UNITS.findIndex(([, unitMs]) => durationMs >= unitMs);
  if (at === -1) return "0 s";
  const parts: string[] = [];
  let leftMs = durationMs;
  for (const [unit, unitMs] of UNITS.slice(at, at + 2)) {
    const count = Math.floor(leftMs / unitMs);
    if (count > 0) parts.push(`${count} ${unit}`);
    leftMs -= count * unitMs;
  }
  return parts.join(" ");
}

/** How many, with its word. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** In whole minutes and UTC: the same on every machine, and sortable. */
export function minute(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function fileSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const kib = bytes / 1024;
  return kib < 1024 ? `${kib.toFixed(1)} KiB` : `${(kib / 1024).toFixed(1)} MiB`;
}
