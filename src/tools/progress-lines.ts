/**
 * What a declared tool says while it runs, as replies that are not terminal.
 *
 * Each reply is a chunk that is journaled and acknowledged. While one is on its way only the last line waits behind it, so a tool that counts to a
 * million costs no more than the disk can take.
 *
 * Invariant: no line follows the tool's result.
 */
import type { ToolRun } from "../client/tools.ts";
import type { ExecRef } from "../protocol/exec-codec.ts";
import { writeExecResult } from "./results.ts";

export function progressLines(exec: ExecRef, run: Pick<ToolRun, "say">) {
  let waiting: string | undefined;
  let saying: Promise<void> | undefined;
  let isOver = false;

  async function sayAll(): Promise<void> {
    for (let text = waiting; text !== undefined; text = waiting) {
      waiting = undefined;
      const result = { case: "progress", value: { text } } as const;
      await run.say(writeExecResult(exec, { case: "mcpResult", value: { result } }));
    }
    saying = undefined;
  }

  return {
    say(text: string): void {
      if (isOver) return;
      waiting = text;
      // A stream that was stopped or left takes no more lines; the result is given all the same.
      saying ??= sayAll().catch(() => undefined);
    },
    /** Resolves when the last line is on this client's disk. */
    async finish(): Promise<void> {
      isOver = true;
      await saying;
    },
  };
}
