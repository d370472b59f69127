/**
 * Lets ripgrep do the matching.
 *
 * We walk, it matches: files are opened here by descriptor and handed over as such, some at a time, so the jail and
 * the ignore rules are the same as without it, and a path that is swapped for a symlink meanwhile is never opened by
 * name. Its regular expressions take linear time.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync } from "node:fs";
import { createInterface } from "node:readline";
import { firstChars } from "../protocol/characters.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { fault, throwIfAborted } from "./faults.ts";
import {
  type FileSearch,
  type Findings,
  type FoundLine,
  type GrepCollector,
  grepCollector,
  type Search,
} from "./grep-collector.ts";
import { trimEnd } from "./grep-text.ts";
import type { Jail } from "./jail.ts";
import { newPace, tookTooLong } from "./pace.ts";
import { type OpenFile, searchedFiles } from "./searched-file.ts";

/** Descriptors in one process: well below the usual limit of 1024. */
const FILES_AT_ONCE = 200;
/** In a child, after standard input, output and error. */
const FIRST_DESCRIPTOR = 3;

export async function searchWithRipgrep(
  program: string,
  what: FileSearch,
  jail: Jail,
  signal: AbortSignal,
): Promise<Findings> {
  const { search } = what;
  const collector = grepCollector(search);
  const pace = newPace(signal);
  let batch: OpenFile[] = [];
  const searchBatch = async () => {
    const files = batch;
    batch = [];
    try {
      await searchFiles(program, files, search, collector, signal, pace.msLeft());
    } finally {
      for (const { fd } of files) closeSync(fd);
    }
  };
  try {
    for (const file of searchedFiles(what, jail, collector)) {
      if (file !== undefined) batch.push(file);
      await pace.next();
      if (batch.length === FILES_AT_ONCE) await searchBatch();
    }
    // Also when there is nothing to search: an invalid pattern is reported in any case.
    await searchBatch();
    return collector.findings;
  } finally {
    for (const { fd } of batch) closeSync(fd);
  }
}

async function searchFiles(
  program: string,
  files: readonly OpenFile[],
  search: Search,
  collector: GrepCollector,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<void> {
  throwIfAborted(signal);
  // Without a file ripgrep would search the working directory.
  const paths = files.length === 0 ? ["/dev/null"] : files.map((_, at) => `/dev/fd/${FIRST_DESCRIPTOR + at}`);
  const child = spawn(program, [...argumentsOf(search), "--", ...paths], {
    stdio: ["ignore", "pipe", "pipe", ...files.map(({ fd }) => fd)],
    env: {},
    cwd: "/",
    signal,
    killSignal: "SIGKILL",
    timeout: Math.max(1, Math.ceil(timeoutMs)),
  });
  const ended = once(child, "close");
  // It is awaited when the output has been read; an abort until then must not look unhandled.
  ended.catch(() => undefined);
  const complaint: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    if (complaint.length < 20) complaint.push(text);
  });
  const reader = messageReader(files, collector);
  /** The last message came: the search was carried out, whatever single files had against it. */
  let isComplete = false;
  if (child.stdout !== null) {
    for await (const line of createInterface({ input: child.stdout })) isComplete = reader(line);
  }
  await ended;
  throwIfAborted(signal);
  if (child.signalCode !== null) throw tookTooLong();
  if (!isComplete) throw fault("EINVAL", `ripgrep: ${firstChars(complaint.join("").trim(), 2000)}`);
}

function argumentsOf(search: Search): readonly string[] {
  return [
    "--no-config",
    "--json",
    // In the order that the files are given.
    "--threads=1",
    "--no-mmap",
    search.ignoreCase ? "--ignore-case" : "--case-sensitive",
    ...(search.multiline ? ["--multiline"] : []),
    `--before-context=${search.linesBefore}`,
    `--after-context=${search.linesAfter}`,
    "--regexp",
    search.pattern,
  ];
}

/** Puts ripgrep's JSON messages together, file by file. True at the last one. */
function messageReader(files: readonly OpenFile[], collector: GrepCollector): (line: string) => boolean {
  let lines: FoundLine[] = [];
  return (json) => {
    // The last line of a ripgrep that was killed is cut off, and is no JSON.
    const { type, data } = fieldsOf(parsedJson(json));
    const message = fieldsOf(data);
    if (type === "begin") lines = [];
    if (type === "match" || type === "context") {
      const first = Number(message["line_number"]);
      const text = textOf(message["lines"]).replace(/\n$/, "");
      for (const [at, line] of text.split("\n").entries()) {
        lines.push({ lineNumber: first + at, text: trimEnd(line), isContext: type === "context" });
      }
    }
    // With a NUL in it, it is no text, whatever matched before.
    if (type === "end" && message["binary_offset"] === null) {
      const descriptor = Number(textOf(message["path"]).replace("/dev/fd/", ""));
      collector.add(files[descriptor - FIRST_DESCRIPTOR]?.path ?? "", lines);
    }
    return type === "summary";
  };
}

/** UTF-8 as text, anything else as base64. */
function textOf(value: unknown): string {
  const { text, bytes } = fieldsOf(value);
  if (typeof text === "string") return text;
  return typeof bytes === "string" ? Buffer.from(bytes, "base64").toString("utf8") : "";
}
