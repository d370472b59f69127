/**
 * The keyboard: whole lines, edited with `node:readline`, with a history of their own per workspace.
 *
 * While a turn runs, readline still edits but draws nothing: its output is muted and `onEdit` reports what was
 * typed, for the screen's own line. So the answer and the typing do not write over each other.
 *
 * Lines that are pasted together are one text. Answers to questions do not enter the history.
 */
import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";
import type { ReadStream, WriteStream } from "node:tty";
import { visible } from "../terminal.ts";
import { continued } from "./commands.ts";
import type { History } from "./history.ts";

export type Entered =
  | { readonly kind: "line"; readonly text: string }
  /** Ctrl-C; `hadText` when it took away what was typed. */
  | { readonly kind: "interrupt"; readonly hadText: boolean }
  /** The person leaves (Ctrl-D), or what is piped in has ended. */
  | { readonly kind: "end" }
  /** The input is a pipe: no person is there who could answer. */
  | { readonly kind: "unanswerable" }
  /** The caller took the question back. */
  | { readonly kind: "cancelled" };

interface Typing {
  /** A line was entered while no caller read one. */
  readonly onLine: (text: string) => void;
  /** Ctrl-C while no caller read a line. */
  readonly onInterrupt: () => void;
  /** Ctrl-D while no caller read a line. */
  readonly onEnd: () => void;
  /** What stands in the editor while it draws nothing. */
  readonly onEdit: (text: string) => void;
}

export interface LineInput {
  /** Asks for one line (or several, joined by trailing backslashes). One at a time. */
  read(prompt: string, purpose: "message" | "answer", signal?: AbortSignal): Promise<Entered>;
  /** Takes what is typed while no caller reads. */
  listen(typing: Typing | undefined): void;
  /** Prints something above the line that is being edited, which is drawn again below it. */
  above(print: () => void): void;
  close(): void;
}

const PASTE_ON = "\u001b[?2004h";
const PASTE_OFF = "\u001b[?2004l";
const MORE = "… ";

/** Readline's output: the terminal, or nothing. */
class MutedOutput extends Writable {
  readonly #out: WriteStream;
  isMuted = false;

  constructor(out: WriteStream) {
    super();
    this.#out = out;
    out.on("resize", () => this.emit("resize"));
  }

  get columns(): number {
    return this.#out.columns;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    if (!this.isMuted) this.#out.write(chunk);
    done();
  }
}

export function ttyInput(
  input: ReadStream,
  out: WriteStream,
  history: History,
  complete: (line: string) => readonly string[],
): LineInput {
  const output = new MutedOutput(out);
  const lines = createInterface({
    input,
    output,
    terminal: true,
    history: [...history.entries],
    historySize: history.max,
    removeHistoryDuplicates: true,
    completer: (line: string) => [[...complete(line)], line],
  });
  let reading: { purpose: "message" | "answer"; resolve: (entered: Entered) => void } | undefined;
  let isClosed = false;
  let typing: Typing | undefined;
  let before = "";
  let isPasting = false;
  /** Typed while a command was being carried out: for the next caller that reads. */
  const early: string[] = [];
  /** A line that was not finished when a question came; it is given back after the answer. */
  let aside = "";
  out.write(PASTE_ON);

  const setAside = (): void => {
    aside = lines.line;
    clearLine(lines);
  };

  const settle = (entered: Entered): void => {
    const { resolve } = reading ?? {};
    reading = undefined;
    before = "";
    output.isMuted = typing !== undefined;
    if (aside !== "" && !isClosed) lines.write(aside);
    aside = "";
    resolve?.(entered);
  };

  lines.on("line", (line) => {
    // An answer is one line: a backslash in it is a backslash.
    const isAnswer = reading?.purpose === "answer";
    const more = isPasting ? `${line}\n` : isAnswer ? undefined : continued(line);
    if (more !== undefined) {
      before += more;
      if (reading !== undefined && !isPasting) {
        lines.setPrompt(MORE);
        lines.prompt();
      }
      return;
    }
    const text = before + line;
    before = "";
    if (reading !== undefined) settle({ kind: "line", text });
    else if (typing !== undefined) typing.onLine(text);
    else early.push(text);
    if (reading === undefined) typing?.onEdit("");
  });
  lines.on("SIGINT", () => {
    const hadText = lines.line !== "" || before !== "";
    clearLine(lines);
    before = "";
    if (reading === undefined) typing?.onInterrupt();
    else {
      if (!output.isMuted) out.write("^C\n");
      settle({ kind: "interrupt", hadText });
    }
  });
  lines.on("close", () => {
    if (isClosed) return;
    isClosed = true;
    out.write(PASTE_OFF);
    if (reading === undefined) typing?.onEnd();
    else settle({ kind: "end" });
  });
  lines.on("history", (entries) => {
    if (reading?.purpose === "answer") entries.shift();
    else history.keep(entries);
  });
  input.on("keypress", (_text: unknown, key: { readonly name?: string } | undefined) => {
    if (key?.name === "paste-start") isPasting = true;
    if (key?.name === "paste-end") isPasting = false;
    // Readline has taken the key in before or takes it in after us: look when both are done.
    setImmediate(() => {
      if (reading === undefined) typing?.onEdit(before + lines.line);
    });
  });

  return {
    read: (prompt, purpose, signal) => {
      const { promise, resolve } = Promise.withResolvers<Entered>();
      const typed = purpose === "message" ? early.shift() : undefined;
      if (typed !== undefined) {
        out.write(`${prompt}${visible(typed)}\n`);
        return Promise.resolve({ kind: "line", text: typed });
      }
      if (isClosed) return Promise.resolve({ kind: "end" });
      // What is being typed was meant for something else: it must not become a yes.
      if (purpose === "answer") setAside();
      reading = { purpose, resolve };
      output.isMuted = false;
      lines.setPrompt(prompt);
      lines.prompt(true);
      const cancel = (): void => {
        // Typed as an answer: it must not become a message.
        if (purpose === "answer") clearLine(lines);
        out.write("\n");
        settle({ kind: "cancelled" });
      };
      signal?.addEventListener("abort", cancel, { once: true });
      return promise.finally(() => signal?.removeEventListener("abort", cancel));
    },
    listen: (next) => {
      typing = next;
      output.isMuted = next !== undefined;
    },
    above: (print) => {
      const isEditing = reading !== undefined && !output.isMuted;
      if (isEditing) out.write("\r\u001b[J");
      print();
      if (isEditing) lines.prompt(true);
    },
    close: () => lines.close(),
  };
}

/** Readline offers no other way to take a line back than by the keys for it. */
function clearLine(lines: Interface): void {
  lines.write(null, { ctrl: true, name: "e" });
  lines.write(null, { ctrl: true, name: "u" });
}

/**
 * Lines from a pipe: each is a message, and waits until the chat asks for one. None is an answer: what was written before
 * the question was known must not become a yes to it.
 */
export function pipedInput(input: NodeJS.ReadableStream): LineInput {
  const lines = createInterface({ input, terminal: false });
  const waiting: string[] = [];
  let reading: { resolve: (entered: Entered) => void } | undefined;
  let isOver = false;
  let before = "";

  function next(): void {
    while (reading !== undefined) {
      const line = waiting.shift();
      if (line === undefined && !isOver) return;
      const { resolve } = reading;
      const more = line === undefined ? undefined : continued(line);
      if (more !== undefined) {
        before += more;
        continue;
      }
      reading = undefined;
      const text = before + (line ?? "");
      before = "";
      resolve(line === undefined && text === "" ? { kind: "end" } : { kind: "line", text });
    }
  }

  lines.on("line", (line) => {
    waiting.push(line);
    next();
  });
  lines.on("close", () => {
    isOver = true;
    next();
  });
  return {
    read: (_prompt, purpose, signal) => {
      if (purpose === "answer") return Promise.resolve({ kind: "unanswerable" });
      const { promise, resolve } = Promise.withResolvers<Entered>();
      reading = { resolve };
      const cancel = (): void => {
        reading = undefined;
        resolve({ kind: "cancelled" });
      };
      signal?.addEventListener("abort", cancel, { once: true });
      next();
      return promise.finally(() => signal?.removeEventListener("abort", cancel));
    },
    listen: () => undefined,
    above: (print) => print(),
    close: () => lines.close(),
  };
}
