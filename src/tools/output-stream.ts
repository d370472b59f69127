/**
 * The output of a running command as replies, in order and in pieces of a sensible size.
 *
 * Each reply is a chunk that is journaled and acknowledged, so a command that writes byte by byte must not make one of
 * each. The bound of the output is for both pipes together; a line at the end says how much was left out behind the beginning.
 */
import type { ToolRun } from "../client/tools.ts";
import type { ExecRef } from "../protocol/exec-codec.ts";
import { outputWindow } from "./output-window.ts";
import { type ResultMessage, writeExecResult } from "./results.ts";

/** Soon enough for eyes, rare enough for a journal. */
const PIECE_MS = 100;
const PIECE_BYTES = 16 * 1024;

type From = "stdout" | "stderr";

export function outputStream(exec: ExecRef, run: ToolRun, bytesMax: number) {
  const waiting: { readonly from: From; readonly pieces: Uint8Array[] }[] = [];
  let waitingBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let said: Promise<void> = Promise.resolve();
  const half = Math.ceil(bytesMax / 2);
  const windows = { stdout: outputWindow(half), stderr: outputWindow(bytesMax - half) };

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    waitingBytes = 0;
    for (const { from, pieces } of waiting.splice(0)) sayOutput(from, Buffer.concat(pieces));
  }

  function sayOutput(from: From, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const output = { case: from, value: bytes.subarray(at, at + PIECE_BYTES) };
      say({ case: "shellStreamResult", value: { result: { case: "output", value: { output } } } });
    }
  }

  function say(message: ResultMessage): void {
    const body = writeExecResult(exec, message);
    said = said.then(() => run.say(body));
    // A refusal is reported where this is awaited; until then it must not look unhandled.
    said.catch(() => undefined);
  }

  return {
    started(pid: number): void {
      say({ case: "shellStreamResult", value: { result: { case: "started", value: { pid } } } });
    },
    output(from: From, bytes: Uint8Array): void {
      const shown = windows[from].add(bytes);
      if (shown.length === 0) return;
      const last = waiting.at(-1);
      if (last?.from === from) last.pieces.push(shown);
      else waiting.push({ from, pieces: [shown] });
      waitingBytes += shown.length;
      if (waitingBytes >= PIECE_BYTES) flush();
      else timer ??= setTimeout(flush, PIECE_MS);
    },
    /** Resolves when everything is on this client's disk, with whether something was left out. */
    async finish(): Promise<boolean> {
      flush();
      const { stdout, stderr } = windows;
      sayOutput("stdout", stdout.end());
      sayOutput("stderr", stderr.end());
      await said.catch((cause: unknown) => {
        // A stream that was stopped takes no more output; the result is given all the same.
        if (!run.signal.aborted) throw cause;
      });
      return stdout.isTruncated() || stderr.isTruncated();
    },
  };
}
