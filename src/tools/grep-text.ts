/**
 * Searches one file's bytes and tells the lines, as ripgrep does: binary files have none, UTF-16 with a byte order
 * mark is read as text, a line break at the very end begins no further line.
 */
import type { FoundLine, Search } from "./grep-collector.ts";
import { looksBinary } from "./media-type.ts";

/** Undefined when the file is binary. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  // Takes away the mark of UTF-8 too.
  return looksBinary(bytes) ? undefined : new TextDecoder().decode(bytes);
}

export function searchText(text: string, pattern: RegExp, search: Search): readonly FoundLine[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const matching = search.multiline ? acrossLines(text, lines, pattern) : withinLines(lines, pattern);
  if (matching.length === 0) return [];
  return withContext(lines, matching, search);
}

/** Indexes of the lines that match, rising. */
function withinLines(lines: readonly string[], pattern: RegExp): readonly number[] {
  const found: number[] = [];
  for (const [index, line] of lines.entries()) {
    pattern.lastIndex = 0;
    if (pattern.test(line)) found.push(index);
  }
  return found;
}

function acrossLines(text: string, lines: readonly string[], pattern: RegExp): readonly number[] {
  const found: number[] = [];
  // What lies behind the last line break is a line of its own here.
  let [line, start] = [0, 0];
  const lineAt = (position: number): number => {
    for (let text = lines[line]; text !== undefined && start + text.length < position; text = lines[++line])
      start += text.length + 1;
    return line;
  };
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    const end = match.index + match[0].length;
    const first = lineAt(match.index);
    // A match that ends with a line break does not touch the line after it.
    const last = lineAt(Math.max(match.index, end - 1));
    for (let at = Math.max(first, (found.at(-1) ?? -1) + 1); at <= last; at++) found.push(at);
    if (match[0] === "") pattern.lastIndex++;
  }
  return found.filter((at) => at < lines.length);
}

function withContext(lines: readonly string[], matching: readonly number[], search: Search): FoundLine[] {
  const isMatch = new Set(matching);
  const shown: FoundLine[] = [];
  let next = 0;
  for (const match of matching) {
    const from = Math.max(next, match - search.linesBefore);
    const to = Math.min(lines.length - 1, match + search.linesAfter);
    for (let line = from; line <= to; line++) {
      shown.push({ lineNumber: line + 1, text: trimEnd(lines[line] ?? ""), isContext: !isMatch.has(line) });
    }
    next = Math.max(next, to + 1);
  }
  return shown;
}

/** The other half of a Windows line break. */
export function trimEnd(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}
