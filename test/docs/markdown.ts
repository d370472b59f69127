/**
 * What a Markdown file claims that a program can check: its code blocks and its links.
 */
export interface Block {
  readonly language: string;
  readonly text: string;
  readonly line: number;
  /** Explained after what it makes possible, and marked so. */
  readonly runsFirst: boolean;
}

const RUNS_FIRST = "<!-- runs first -->";

export function blocksOf(markdown: string): readonly Block[] {
  const blocks: Block[] = [];
  let open: { language: string; line: number; lines: string[]; runsFirst: boolean } | undefined;
  let before = "";
  for (const [at, line] of markdown.split("\n").entries()) {
    const fence = /^```(?<language>\w*)$/.exec(line);
    if (open !== undefined && fence !== null) {
      blocks.push({ ...open, text: open.lines.join("\n") });
      open = undefined;
    } else if (open !== undefined) {
      open.lines.push(line);
    } else if (fence !== null) {
      open = {
        language: fence.groups?.["language"] ?? "",
        line: at + 1,
        lines: [],
        runsFirst: before === RUNS_FIRST,
      };
    }
    if (line !== "") before = line;
  }
  return blocks;
}

/** Paths within the repository, as they are written. */
export function linksOf(markdown: string): readonly string[] {
  return [...markdown.matchAll(/\]\((?<target>[^)\s#]+)(?:#[^)]*)?\)/g)]
    .map((match) => match.groups?.["target"] ?? "")
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** Files of the source, the tests and the contract that a text names in backticks. */
export function filesNamedIn(markdown: string): readonly string[] {
  const named = /`(?<path>(?:src|test|proto|docs|examples|scripts)\/[\w./-]*[\w/])`/g;
  return [...markdown.matchAll(named)].map((match) => match.groups?.["path"] ?? "");
}
