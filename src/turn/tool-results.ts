/**
 * What the model sees of an exec's outcome: text, bounded, and images.
 *
 * Every kind of result ends in the same few ways; only success looks different for each.
 */
import { cutAt } from "../protocol/characters.ts";
import type {
  Content,
  ExecClientMessage,
  GrepSuccess,
  LsSuccess,
  McpSuccess,
  ReadSuccess,
  ShellSuccess,
} from "../protocol/messages.ts";
import { LsEntryKind } from "../protocol/messages.ts";
import type { ToolResultPart } from "../protocol/chat-message.ts";
import type { ExecPiece, ExecReply } from "./exec-reply.ts";

export type Outcome = ToolResultPart["outcome"];

export interface ToolImage {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export interface CallResult {
  readonly outcome: Outcome;
  readonly text: string;
  readonly images: readonly ToolImage[];
}

/** Reads what a client sent, wherever it lies. */
type ReadContent = (content: Content | undefined) => Uint8Array;

/** About ten thousand tokens: a result that fills the context is of no use. */
export const RESULT_CHARS_MAX = 40_000;

/** Of one result; no model looks at more. */
const IMAGES_MAX = 100;

const NOTHING = "the client answered with nothing";

const decoder = new TextDecoder();

export function callResult(outcome: Outcome, text: string, images: readonly ToolImage[] = []): CallResult {
  return { outcome, text: shortened(text), images };
}

/** Cut in the middle: beginnings say what it is, ends say how it went. */
export function shortened(text: string): string {
  if (text.length <= RESULT_CHARS_MAX) return text;
  const half = RESULT_CHARS_MAX / 2;
  const [from, to] = [cutAt(text, half), cutAt(text, text.length - half)];
  return `${text.slice(0, from)}\n... ${to - from} characters left out ...\n${text.slice(to)}`.toWellFormed();
}

type Result = Extract<ExecClientMessage["message"], { case: string }>;

export function describeReply(
  reply: ExecReply | "unknown",
  pieces: readonly ExecPiece[],
  read: ReadContent,
): CallResult {
  if (reply === "unknown") {
    return callResult("unknown", "The client that ran this is gone; whether it took effect is not known.");
  }
  if (reply.kind === "throw") return callResult("failed", reply.error);
  const { message } = reply.reply;
  if (message.case === undefined) return callResult("failed", NOTHING);
  return describeResult(message, pieces, read);
}

function describeResult(message: Result, pieces: readonly ExecPiece[], read: ReadContent): CallResult {
  const { result } = message.value;
  switch (result.case) {
    case "success":
      return describeSuccess(message, pieces, read) ?? callResult("failed", NOTHING);
    case "error":
      return callResult("failed", withOutput(result.value.message, pieces));
    case "rejected":
      return callResult("denied", denied(result.value.reason));
    case "permissionDenied":
    case "notFound":
      return callResult("failed", located(result.value));
    case "timeout": {
      const said = decoder.decode(read(result.value.output));
      const text = `It took longer than ${result.value.timeoutMs} ms and was stopped.`;
      return callResult("failed", withOutput(said === "" ? text : `${text}\n${said}`, pieces));
    }
    case "unknown": {
      const text = `The outcome is unknown: ${result.value.detail}`;
      return callResult("unknown", withOutput(text, pieces));
    }
    case "aborted":
      return callResult("aborted", withOutput(`It was stopped: ${result.value.detail}`, pieces));
    default:
      return callResult("failed", NOTHING);
  }
}

function denied(reason: string): string {
  const why = reason === "" || reason === "denied" ? "" : `: ${reason}`;
  return `This was not allowed and did not run${why}`;
}

function located({ message, path }: { readonly message: string; readonly path: string }): string {
  return path === "" || message.includes(path) ? message : `${message}: ${path}`;
}

function withOutput(text: string, pieces: readonly ExecPiece[]): string {
  const output = outputOf(pieces);
  return output === "" ? text : `${text}\nOutput until then:\n${output}`;
}

/** What a command wrote, both streams as they came. */
export function outputOf(pieces: readonly ExecPiece[]): string {
  const streaming = new TextDecoder();
  const texts = pieces.map((piece) =>
    piece.kind === "progress" ? "" : streaming.decode(piece.bytes, { stream: true }),
  );
  return texts.join("") + streaming.decode();
}

function describeSuccess(
  message: Result,
  pieces: readonly ExecPiece[],
  read: ReadContent,
): CallResult | undefined {
  const { case: kind, value } = message;
  // The compiler does not know that it is the success of this kind; each case looks again.
  switch (kind) {
    case "shellResult":
    case "shellStreamResult":
      return value.result.case === "success" ? describeShell(value.result.value, pieces, read) : undefined;
    case "readResult":
      return value.result.case === "success" ? describeRead(value.result.value, read) : undefined;
    case "writeResult": {
      if (value.result.case !== "success") return undefined;
      const { bytesWritten, created } = value.result.value;
      return callResult("done", `${created ? "Created" : "Written"}: ${bytesWritten} bytes.`);
    }
    case "deleteResult":
      return callResult("done", "Deleted.");
    case "grepResult":
      return value.result.case === "success" ? describeGrep(value.result.value) : undefined;
    case "lsResult":
      return value.result.case === "success" ? describeLs(value.result.value) : undefined;
    case "globResult": {
      if (value.result.case !== "success") return undefined;
      const { paths, truncated } = value.result.value;
      return callResult("done", paths.length === 0 ? "No files." : `${paths.join("\n")}${more(truncated)}`);
    }
    case "mcpResult":
      return value.result.case === "success" ? describeMcp(value.result.value, read) : undefined;
    case "subagentResult": {
      if (value.result.case !== "success") return undefined;
      return callResult("done", decoder.decode(read(value.result.value.text)));
    }
  }
}

function more(truncated: boolean): string {
  return truncated ? "\n... and more" : "";
}

function describeShell(success: ShellSuccess, pieces: readonly ExecPiece[], read: ReadContent): CallResult {
  const [stdout, stderr] = [read(success.stdout), read(success.stderr)];
  const streamed = outputOf(pieces);
  const whole = decoder.decode(stdout) + (stderr.length > 0 ? `\n[stderr]\n${decoder.decode(stderr)}` : "");
  const output = streamed === "" ? whole : streamed;
  const cut = success.outputTruncated ? "\n(some of the output was left out)" : "";
  const end = success.signal === "" ? `exit code ${success.exitCode}` : `ended by ${success.signal}`;
  const isFine = success.exitCode === 0 && success.signal === "";
  const text = isFine && output !== "" ? `${output}${cut}` : `${output}${cut}\n(${end})`.trimStart();
  return callResult("done", text);
}

function describeRead(success: ReadSuccess, read: ReadContent): CallResult {
  const bytes = read(success.content);
  if (success.mediaType.startsWith("image/")) {
    return callResult("done", `An image (${success.mediaType}, ${success.sizeBytes} bytes).`, [
      { mediaType: success.mediaType, bytes },
    ]);
  }
  if (success.totalLines === 0 && success.sizeBytes > 0 && !success.mediaType.startsWith("text/")) {
    return callResult("done", `A binary file (${success.mediaType}, ${success.sizeBytes} bytes).`);
  }
  if (success.sizeBytes === 0) return callResult("done", "(the file is empty)");
  const cut = success.truncated ? `\n(there is more: ${success.totalLines} lines in all)` : "";
  return callResult("done", decoder.decode(bytes) + cut);
}

function describeGrep({ files, matchCount, truncated }: GrepSuccess): CallResult {
  if (files.length === 0) return callResult("done", "No matches.");
  const lines = files.flatMap(({ path, matchCount: count, lines: found }) =>
    found.length === 0
      ? [`${path}: ${count}`]
      : found.map((line) => `${path}:${line.lineNumber}${line.isContext ? "-" : ":"} ${line.text}`),
  );
  return callResult(
    "done",
    `${lines.join("\n")}\n(${matchCount} matches${truncated ? ", not all shown" : ""})`,
  );
}

function describeLs({ entries, truncated }: LsSuccess): CallResult {
  if (entries.length === 0) return callResult("done", "(empty)");
  const lines = entries.map(({ path, kind, sizeBytes }) => {
    if (kind === LsEntryKind.DIRECTORY) return `${path}/`;
    return kind === LsEntryKind.SYMLINK ? `${path} (symlink)` : `${path} (${sizeBytes} bytes)`;
  });
  return callResult("done", lines.join("\n") + more(truncated));
}

/** What models look at as it is; all else is text. */
const FILE = /^(?:image\/|application\/pdf$)/;

function describeMcp(success: McpSuccess, read: ReadContent): CallResult {
  const texts: string[] = [];
  const images: ToolImage[] = [];
  for (const { mediaType, content } of success.content) {
    const bytes = read(content);
    if (FILE.test(mediaType)) images.push({ mediaType, bytes });
    else texts.push(decoder.decode(bytes));
  }
  if (texts.length === 0 && success.structuredJson !== undefined) {
    texts.push(decoder.decode(read(success.structuredJson)));
  }
  if (images.length > IMAGES_MAX) texts.push(`(${images.length - IMAGES_MAX} more images were left out)`);
  return callResult(success.isError ? "failed" : "done", texts.join("\n"), images.slice(0, IMAGES_MAX));
}
