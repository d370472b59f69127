/**
 * What a search has found so far, within its bounds: both engines cut the results by the same rules.
 *
 * A match is a matching line; a pattern that matches across lines counts each line that it touches. Everything is
 * counted, also what is left out.
 */
import { firstChars } from "../protocol/characters.ts";
import { GrepOutput } from "../protocol/messages.ts";

export interface FoundLine {
  readonly lineNumber: number;
  readonly text: string;
  readonly isContext: boolean;
}

interface FoundFile {
  path: string;
  matchCount: number;
  lines: FoundLine[];
}

export interface Findings {
  files: FoundFile[];
  matchCount: number;
  truncated: boolean;
}

/** What is to be searched for, as plain values: it also crosses to a thread. */
export interface Search {
  readonly pattern: string;
  readonly ignoreCase: boolean;
  readonly multiline: boolean;
  readonly linesBefore: number;
  readonly linesAfter: number;
  readonly output: GrepOutput;
  /** Lines, or files. */
  readonly resultsMax: number;
}

/** Where: `path` is relative to the workspace or absolute within it. */
export interface FileSearch {
  readonly search: Search;
  readonly path: string;
  readonly glob: string;
}

/** A longer line is cut: minified files have lines of megabytes. */
const LINE_CHARS_MAX = 1000;
/** Of all lines together; a result must fit a chunk with room to spare. */
const TEXT_CHARS_MAX = 192 * 1024;

export type GrepCollector = ReturnType<typeof grepCollector>;

export function grepCollector(search: Search) {
  const findings: Findings = { files: [], matchCount: 0, truncated: false };
  /** Lines, or files, that were kept. */
  let kept = 0;
  let chars = 0;

  const isFull = (): boolean => kept >= search.resultsMax || chars >= TEXT_CHARS_MAX;

  function fitting(lines: readonly FoundLine[]): FoundLine[] {
    const fit: FoundLine[] = [];
    for (const line of lines) {
      if (isFull()) {
        findings.truncated = true;
        break;
      }
      const text = cut(line.text);
      fit.push({ ...line, text });
      kept++;
      chars += text.length;
    }
    return fit;
  }

  return {
    findings,
    /** The lines of one file, in order. */
    add(path: string, lines: readonly FoundLine[]): void {
      const matchCount = lines.reduce((count, line) => (line.isContext ? count : count + 1), 0);
      if (matchCount === 0) return;
      findings.matchCount += matchCount;
      if (isFull()) {
        findings.truncated = true;
        return;
      }
      const wantsLines = search.output !== GrepOutput.FILES && search.output !== GrepOutput.COUNTS;
      findings.files.push({ path, matchCount, lines: wantsLines ? fitting(lines) : [] });
      if (!wantsLines) kept++;
    },
  };
}

function cut(text: string): string {
  return firstChars(text, LINE_CHARS_MAX, ` [... ${text.length - LINE_CHARS_MAX} more characters]`);
}
