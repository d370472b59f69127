/**
 * Lets ripgrep do the matching.
 *
 * We walk, it matches: files are opened here by descriptor and handed over as such, some at a time, so the jail and
 * the ignore rules are the same as without it, and a path that is swapped for a symlink meanwhile is never opened by
 * name. Its regular expressions take linear time.
 */
import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { createInterface } from "node:readline";
import { fault, throwIfAborted } from "./faults.ts";
import { fileFilter } from "./file-filter.ts";
import {
  type FileSearch,
  type Findings,
  type FoundLine,
  GrepCollector,
  type Search,
} from "./grep-collector.ts";
import { trimEnd } from "./grep-text.ts";
import type { Jail } from "./jail.ts";
import { Pace, tookTooLong } from "./pace.ts";
import { openSearched } from "./searched-file.ts";
import { filesBelow } from "./tree.ts";

/** Descriptors in one process: well below the usual limit of 1024. */
const FILES_AT_ONCE = 200;
/** In a child, after standard input, output and error. */
const FIRST_DESCRIPTOR = 3;

interface OpenFile {
  readonly path: string;
  readonly fd: number;
}

export async function searchWithRipgrep(
  program: string,
  { search, path, glob }: FileSearch,
  jail: Jail,
  signal: AbortSignal,
): Promise<Findings> {
  const collector = new GrepCollector(search);
  const pace = new Pace(signal);
  const place = jail.locate(path);
  let batch: OpenFile[] = [];
  const searchBatch = async () => {
    const files = batch;
    batch = [];
    try {
      await searchFiles(program, files, search, collector, signal, pace.msLeft);
    } finally {
      for (const { fd } of files) closeSync(fd);
    }
  };
  try {
    const filter = fileFilter(glob, place.path);
    for (const file of filesBelow(jail, place, { hidden: filter.hidden })) {
      await pace.next();
      const fd = file !== undefined && filter.takes(file.path) ? openSearched(file, collector) : undefined;
      if (file !== undefined && fd !== undefined) batch.push({ path: file.path, fd });
      if (batch.length === FILES_AT_ONCE) await searchBatch();
    }
    // Also when there is nothing to search: a pattern that is none is told in any case.
    await searchBatch();
    return collector.findings;
  } finally {
    for (const { fd } of batch) closeSync(fd);
    place.close();
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
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  // It is awaited when the output has been read; an abort until then must not look unhandled.
  ended.catch(() => undefined);
  const complaint: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    if (complaint.length < 20) complaint.push(text);
  });
  const reader = new MessageReader(files, collector);
  if (child.stdout !== null) {
    for await (const line of createInterface({ input: child.stdout })) reader.take(line);
  }
  const { signal: killedBy } = await ended;
  throwIfAborted(signal);
  if (killedBy !== null) throw tookTooLong();
  if (!reader.isComplete) throw fault("EINVAL", `ripgrep: ${complaint.join("").trim().slice(0, 2000)}`);
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

/** Puts ripgrep's JSON messages together, file by file. */
class MessageReader {
  readonly #files: readonly OpenFile[];
  readonly #collector: GrepCollector;
  #lines: FoundLine[] = [];
  /** The last message came: the search was carried out, whatever single files had against it. */
  isComplete = false;

  constructor(files: readonly OpenFile[], collector: GrepCollector) {
    this.#files = files;
    this.#collector = collector;
  }

  take(line: string): void {
    const message = fieldsOf(parsed(line));
    const data = fieldsOf(message["data"]);
    switch (message["type"]) {
      case "begin":
        this.#lines = [];
        return;
      case "match":
      case "context":
        this.#addLines(data, message["type"] === "context");
        return;
      case "end":
        // With a NUL in it, it is no text, whatever matched before.
        if (data["binary_offset"] === null) this.#collector.add(this.#pathOf(data["path"]), this.#lines);
        return;
      case "summary":
        this.isComplete = true;
        return;
      default:
    }
  }

  #addLines(data: Fields, isContext: boolean): void {
    const first = Number(data["line_number"]);
    const text = textOf(data["lines"]).replace(/\n$/, "");
    for (const [at, line] of text.split("\n").entries()) {
      this.#lines.push({ lineNumber: first + at, text: trimEnd(line), isContext });
    }
  }

  #pathOf(path: unknown): string {
    const descriptor = Number(textOf(path).replace("/dev/fd/", ""));
    return this.#files[descriptor - FIRST_DESCRIPTOR]?.path ?? "";
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** The last line of one that was killed is cut off, and says nothing. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** UTF-8 as text, anything else as base64. */
function textOf(value: unknown): string {
  const { text, bytes } = fieldsOf(value);
  if (typeof text === "string") return text;
  return typeof bytes === "string" ? Buffer.from(bytes, "base64").toString("utf8") : "";
}
