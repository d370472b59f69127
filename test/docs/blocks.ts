/**
 * Which test runs which code block of the documents. A block that no test takes, and that is not in the list of
 * `CONTRIBUTING.md` with a reason, fails `test/readme.test.ts`.
 *
 * A test gets its blocks from here, so what is said to be run is what it runs.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "./entry-points.ts";
import { type Block, blocksOf } from "./markdown.ts";

export interface Document {
  readonly path: string;
  readonly text: string;
}

export const documents: readonly Document[] = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "bench/README.md",
  ...globSync("docs/**/*.md", { cwd: repository }),
]
  .toSorted()
  .map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") }));

export interface DocumentedBlock extends Block {
  readonly document: string;
}

export const blocks: readonly DocumentedBlock[] = documents.flatMap(({ path, text }) =>
  blocksOf(text).map((block) => Object.assign({ document: path }, block)),
);

/** Documents whose `ts` blocks are a program, and whose `text` blocks are what it prints. */
export const programs: ReadonlySet<string> = new Set(
  blocks.filter(({ language }) => language === "ts").map(({ document }) => document),
);

type Test = keyof typeof TAKEN;

/** Test by test, what it takes. */
const TAKEN = {
  "test/readme.test.ts": ({ document, language }: DocumentedBlock) =>
    language === "ts" || (language === "text" && programs.has(document)),
  "test/cli/inspect.test.ts": ({ document, language }: DocumentedBlock) =>
    document === "docs/CLI.md" && language === "text",
  "test/docs/commands.test.ts": ({ language }: DocumentedBlock) => language === "sh",
  "test/docs/curl-client.test.ts": ({ language }: DocumentedBlock) => language === "bash",
  "test/docs/browser.test.ts": ({ language, text }: DocumentedBlock) =>
    language === "js" && !text.includes("process.stdout"),
  "test/docs/configs.test.ts": ({ document, language }: DocumentedBlock) =>
    language === "json" && document !== "docs/MODELS.md",
  "test/cli/model-config.test.ts": ({ document, language }: DocumentedBlock) =>
    document === "docs/MODELS.md" && (language === "json" || language === "text"),
  "test/gateway/clients/codex.test.ts": ({ language }: DocumentedBlock) => language === "toml",
  "test/gateway/clients/door-clients.test.ts": ({ language }: DocumentedBlock) => language === "mjs",
  "test/browser/examples.test.ts": ({ language }: DocumentedBlock) => language === "tsx",
  "test/docs/talk.test.ts": ({ language, text }: DocumentedBlock) =>
    language === "js" && text.includes("process.stdout"),
  "test/docs/proxies.test.ts": ({ language }: DocumentedBlock) =>
    language === "nginx" || language === "caddyfile",
} as const;

export function blocksRunBy(test: Test): readonly DocumentedBlock[] {
  return blocks.filter(TAKEN[test]);
}

export const tests: readonly string[] = Object.keys(TAKEN);

/** The list of `CONTRIBUTING.md`: a command, or how a block begins, and why no test runs it. */
export const notRun: readonly { readonly what: string; readonly why: string }[] = [
  ...listed("## What no test runs").matchAll(/^\| `(?<what>[^`]+)` *\| (?<why>.+?) *\|$/gm),
].map(({ groups }) => ({ what: groups?.["what"] ?? "", why: groups?.["why"] ?? "" }));

function listed(heading: string): string {
  const text = documents.find(({ path }) => path === "CONTRIBUTING.md")?.text ?? "";
  return text.split(/^(?=## )/m).find((section) => section.startsWith(heading)) ?? "";
}

/** Whether the block begins with these words, however they are spaced. */
export function beginsWith({ text }: Block, words: string): boolean {
  return text.trim().replaceAll(/\s+/g, " ").startsWith(words);
}

export function testsOf(block: DocumentedBlock): readonly string[] {
  return Object.entries(TAKEN).flatMap(([test, takes]) => (takes(block) ? [test] : []));
}
