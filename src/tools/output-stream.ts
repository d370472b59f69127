/**
 * The output of a running command as replies, in order and in pieces of a sensible size.
 *
 * Each reply is a chunk that is journaled and acknowledged, so a command that writes byte by byte must not make one of
 * each. The bound of the output is for both pipes together; what lies beyond the beginning is said at the end.
 */
import type { ToolRun } from "../client/tools.ts";
import type { ExecRef } from "../protocol/exec-codec.ts";
import { OutputWindow } from "./output-window.ts";
import { type ResultMessage, writeExecResult } from "./results.ts";

/** Soon enough for eyes, rare enough for a journal. */
const PIECE_MS = 100;
const PIECE_BYTES = 16 * 1024;

type From = "stdout" | "stderr";

export class OutputStream {
  readonly #exec: ExecRef;
  readonly #run: ToolRun;
  readonly #windows: Readonly<Record<From, OutputWindow>>;
  #waiting: { readonly from: From; readonly pieces: Uint8Array[] }[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #said: Promise<void> = Promise.resolve();

  constructor(exec: ExecRef, run: ToolRun, bytesMax: number) {
    this.#exec = exec;
    this.#run = run;
    const half = Math.ceil(bytesMax / 2);
    this.#windows = { stdout: new OutputWindow(half), stderr: new OutputWindow(bytesMax - half) };
  }

  started(pid: number): void {
    this.#say({ case: "shellStreamResult", value: { result: { case: "started", value: { pid } } } });
  }

  output(from: From, bytes: Uint8Array): void {
    const shown = this.#windows[from].add(bytes);
    if (shown.length === 0) return;
    const last = this.#waiting.at(-1);
    if (last?.from === from) last.pieces.push(shown);
    else this.#waiting.push({ from, pieces: [shown] });
    this.#waitingBytes += shown.length;
    if (this.#waitingBytes >= PIECE_BYTES) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), PIECE_MS);
  }

  /** Resolves when everything is on this client's disk, with whether something was left out. */
  async finish(): Promise<boolean> {
    this.#flush();
    const { stdout, stderr } = this.#windows;
    this.#sayOutput("stdout", stdout.end());
    this.#sayOutput("stderr", stderr.end());
    await this.#said.catch((cause: unknown) => {
      // A stream that was stopped takes no more output; the result is given all the same.
      if (!this.#run.signal.aborted) throw cause;
    });
    return stdout.truncated || stderr.truncated;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { from, pieces } of waiting) this.#sayOutput(from, Buffer.concat(pieces));
  }

  #sayOutput(from: From, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const output = { case: from, value: bytes.subarray(at, at + PIECE_BYTES) };
      this.#say({ case: "shellStreamResult", value: { result: { case: "output", value: { output } } } });
    }
  }

  #say(message: ResultMessage): void {
    const body = writeExecResult(this.#exec, message);
    this.#said = this.#said.then(() => this.#run.say(body));
    // It is told where it is awaited; until then a refusal must not look unhandled.
    this.#said.catch(() => undefined);
  }
}
