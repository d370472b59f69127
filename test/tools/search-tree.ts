/**
 * A tree to search, and what must be found in it, written down: the same for ripgrep and for our own search.
 */
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { GrepOutput } from "../../src/protocol/index.ts";
import type { Findings } from "../../src/tools/grep-collector.ts";
import { put } from "./rig.ts";

export function plantTree(root: string): void {
  put(root, {
    ".gitignore": "*.log\n/build/\nsecret*\n!secret-but-kept.txt\n",
    ".hidden.ts": "needle hidden\n",
    ".github/ci.ts": "needle ci\n",
    "README.md": "# Title\n\nA needle here.\nAnd a Needle there.\nno\nneedle needle\n",
    "app.log": "needle in a log\n",
    "bin.dat": Buffer.from("needle\n\0binary needle\n"),
    "build/out.ts": "needle built\n",
    "latin.txt": Buffer.from([0x6e, 0x65, 0x65, 0x64, 0x6c, 0x65, 0x20, 0xe9, 0x0a]),
    "nobreak.txt": "first\nlast needle",
    "secret.txt": "needle secret\n",
    "secret-but-kept.txt": "needle kept\n",
    "src/.gitignore": "gen/\n!important.log\n",
    "src/a.ts": 'import { x } from "./b";\n\nfunction one() {\n  return "needle";\n}\n',
    "src/b.ts": "export const x = 1;\nexport const y = foo(\n  1,\n  2,\n);\n",
    "src/build/inner.ts": "needle in src/build\n",
    "src/gen/c.ts": "needle generated\n",
    "src/important.log": "needle important\n",
    "utf16.txt": Buffer.from("\ufeffa wide needle\n", "utf16le"),
    "windows.txt": "one\r\nneedle two\r\n",
  });
  mkdirSync(join(root, "empty"));
  symlinkSync("README.md", join(root, "link.md"));
}

/** What ripgrep lists there: `rg --files --no-require-git --sort path`. */
export const SEARCHED = [
  "README.md",
  "bin.dat",
  "latin.txt",
  "nobreak.txt",
  "secret-but-kept.txt",
  "src/a.ts",
  "src/b.ts",
  "src/build/inner.ts",
  "src/important.log",
  "utf16.txt",
  "windows.txt",
];

export interface Case {
  readonly name: string;
  readonly args: {
    readonly pattern: string;
    readonly path?: string;
    readonly glob?: string;
    readonly output?: GrepOutput;
    readonly ignoreCase?: boolean;
    readonly multiline?: boolean;
    readonly linesBefore?: number;
    readonly linesAfter?: number;
    readonly resultsMax?: number;
  };
  /** `path:line:text`, context with "-", `path=count`; the total; then "cut" if something was left out. */
  readonly found: readonly string[];
}

const { FILES, COUNTS } = GrepOutput;

export const CASES: readonly Case[] = [
  {
    name: "lines of all files that are not ignored, hidden or binary",
    args: { pattern: "needle" },
    found: [
      "README.md:3:A needle here.",
      "README.md:6:needle needle",
      "latin.txt:1:needle \ufffd",
      "nobreak.txt:2:last needle",
      "secret-but-kept.txt:1:needle kept",
      'src/a.ts:4:  return "needle";',
      "src/build/inner.ts:1:needle in src/build",
      "src/important.log:1:needle important",
      "utf16.txt:1:a wide needle",
      "windows.txt:2:needle two",
      "10",
    ],
  },
  {
    name: "ignoring case, counted",
    args: { pattern: "NEEDLE", ignoreCase: true, output: COUNTS, path: "README.md" },
    found: ["README.md=3", "3"],
  },
  {
    name: "files only, cut",
    args: { pattern: "needle", output: FILES, resultsMax: 2 },
    found: ["README.md=2", "latin.txt=1", "10", "cut"],
  },
  {
    name: "context around matches, joined where it overlaps",
    args: { pattern: "eedle", path: "README.md", linesBefore: 1, linesAfter: 1 },
    found: [
      "README.md-2-",
      "README.md:3:A needle here.",
      "README.md:4:And a Needle there.",
      "README.md-5-no",
      "README.md:6:needle needle",
      "3",
    ],
  },
  {
    name: "across lines",
    args: { pattern: "foo\\([^)]*\\)", multiline: true },
    found: ["src/b.ts:2:export const y = foo(", "src/b.ts:3:  1,", "src/b.ts:4:  2,", "src/b.ts:5:);", "4"],
  },
  {
    name: "across lines: a dot is no line break",
    args: { pattern: "function.*return", multiline: true },
    found: ["0"],
  },
  {
    name: "below a directory, its own and the upper rules",
    args: { pattern: "needle", path: "src", output: FILES },
    found: ["src/a.ts=1", "src/build/inner.ts=1", "src/important.log=1", "3"],
  },
  {
    name: "an ignored directory that is named itself",
    args: { pattern: "needle", path: "build", output: FILES },
    found: ["build/out.ts=1", "1"],
  },
  {
    name: "a glob without a slash, at any depth",
    args: { pattern: "needle", glob: "*.ts", output: FILES },
    found: ["src/a.ts=1", "src/build/inner.ts=1", "2"],
  },
  {
    name: "a glob that leaves out",
    args: { pattern: "needle", glob: "!*.{ts,md}", path: "", output: FILES },
    found: [
      "latin.txt=1",
      "nobreak.txt=1",
      "secret-but-kept.txt=1",
      "src/important.log=1",
      "utf16.txt=1",
      "windows.txt=1",
      "6",
    ],
  },
  {
    name: "a glob that asks for hidden files",
    args: { pattern: "needle", glob: ".github/**/*.ts", output: FILES },
    found: [".github/ci.ts=1", "1"],
  },
  {
    name: "anchors, classes, counts",
    args: { pattern: "^export const \\w{1} = \\d+;$" },
    found: ["src/b.ts:1:export const x = 1;", "1"],
  },
  {
    name: "flags and named groups of ripgrep",
    args: { pattern: "(?i)(?P<word>TITLE)" },
    found: ["README.md:1:# Title", "1"],
  },
  {
    name: "POSIX classes and word boundaries",
    args: { pattern: "\\b[[:upper:]]eedle\\b" },
    found: ["README.md:4:And a Needle there.", "1"],
  },
  { name: "escaped punctuation", args: { pattern: "^\\# Title" }, found: ["README.md:1:# Title", "1"] },
  { name: "nothing", args: { pattern: "haystack" }, found: ["0"] },
];

export function told({ files, matchCount, truncated }: Findings): readonly string[] {
  const lines = files.flatMap((file) =>
    file.lines.length === 0
      ? [`${file.path}=${file.matchCount}`]
      : file.lines.map(({ lineNumber, text, isContext }) =>
          isContext ? `${file.path}-${lineNumber}-${text}` : `${file.path}:${lineNumber}:${text}`,
        ),
  );
  return [...lines, String(matchCount), ...(truncated ? ["cut"] : [])];
}
