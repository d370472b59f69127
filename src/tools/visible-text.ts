/**
 * Text from a model, shown to the person who decides about it: nothing in it is hidden, and nothing pushes the rest out of sight.
 *
 * Control characters, terminal escapes, marks that reverse the direction of writing, characters of no width and blanks that
 * are no space are shown as `\u{202e}`. Text that looks like such an escape already gets a second backslash. White space, and
 * whatever else draws nothing, is counted where much of it stands in a row. All of this is for the eyes: what runs is the text itself.
 */
import { firstChars } from "../protocol/characters.ts";

/** Categories: control, format, surrogate, private, unassigned; separators of lines; what draws nothing though it is a letter or a mark; blanks other than the space. */
const HIDDEN = /\\u\{|[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}]|(?! )\p{Zs}/gu;

/** Keeps line breaks and tabs. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, (match) => {
    if (match === "\n" || match === "\t") return match;
    return match === "\\u{" ? "\\\\u{" : escapeOf(match);
  });
}

/** A run of blanks that would be wider than this on a screen is counted instead. */
const BLANK_CELLS_MAX = 40;
const TAB_CELLS = 4;
const EMPTY_LINES_MAX = 2;
const BLANKS = /[\p{Zs}\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}]{2,}/gu;
const KINDS_MAX = 3;

/** As `visibleText`, with long runs of white space and of empty lines folded. */
export function foldedText(text: string): string {
  const lines = text.split("\n").map((line) => visibleText(line.replace(BLANKS, folded)));
  const kept: string[] = [];
  for (let at = 0; at < lines.length;) {
    let end = at;
    while (end < lines.length && lines[end]?.trim() === "") end++;
    if (end - at > EMPTY_LINES_MAX) kept.push(`[${end - at} empty lines]`);
    else kept.push(...lines.slice(at, end));
    if (end < lines.length) kept.push(lines[end] ?? "");
    at = end + 1;
  }
  return kept.join("\n");
}

function folded(run: string): string {
  const counts = new Map<string, number>();
  for (const char of run) counts.set(char, (counts.get(char) ?? 0) + 1);
  const cells = [...counts].reduce((sum, [char, count]) => sum + count * cellsOf(char), 0);
  if (cells <= BLANK_CELLS_MAX) return run;
  const kinds = [...counts].map(([char, count]) => `${count} ${nameOf(char)}`);
  const others = kinds.length > KINDS_MAX ? ` and ${kinds.length - KINDS_MAX} other kinds` : "";
  return `[${kinds.slice(0, KINDS_MAX).join(", ")}${others}]`;
}

function cellsOf(char: string): number {
  if (char === " ") return 1;
  return char === "\t" ? TAB_CELLS : escapeOf(char).length;
}

/** Written as a code point's name is: a backslash would be taken for one of the text's own. */
function nameOf(char: string): string {
  if (char === " ") return "spaces";
  return char === "\t" ? "tabs" : `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}`;
}

/** For one line of a list or a title: line breaks and tabs are shown too, a long text is cut. */
export function visibleLine(text: string, charsMax = 160): string {
  return firstChars(foldedText(text).replace(/[\n\t]/g, escapeOf), charsMax, "...");
}

function escapeOf(char: string): string {
  return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
}
