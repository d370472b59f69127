/**
 * Mutations drawn by lot that no test notices, and why that is right. A survivor without an entry here fails the run.
 */
export interface Survivor {
  readonly file: string;
  /** A part of the changed lines as they are in the source. */
  readonly from: string;
  /** A part of them as the mutation has them. */
  readonly to: string;
  /** One sentence; `docs/GUARANTEES.md` has it too. */
  readonly why: string;
}

export const SURVIVORS: readonly Survivor[] = [
  {
    file: "src/gateway/requests.ts",
    from: "line.files.length > 0",
    to: "line.files.length >= 0",
    why: "The model is told nothing of a tool's result without text and files, whether it is one empty text or no content.",
  },
  {
    file: "src/gateway/openai/failures.ts",
    from: "failure?.providerStatus ?? 0",
    to: "failure?.providerStatus ?? (0 + 1)",
    why: "No row is for status 1 either: both stand for a failure without a provider's status.",
  },
  {
    file: "src/agent/models/line/kept-bytes.ts",
    from: "Buffer.alloc(0)",
    to: "Buffer.alloc((0 + 1))",
    why: "It stands for bytes that are gone, and no reader stands there: a call that has lost some is not attached to again.",
  },
  {
    file: "src/gateway/session-driver.ts",
    from: "stream.leave();\n    this.#changes.notify();",
    to: "stream.leave();\n    ;",
    why: "The stream's first event, or its end, notifies as well: a client that waits for the stream is served then.",
  },
  {
    file: "src/gateway/passed/pass-through.ts",
    from: 'if (!answer.complete) throw unreachable(503, "broke off',
    to: 'if (!answer.complete) throw unreachable((503 + 1), "broke off',
    why: "The response's head has left by then, so its client sees a response that breaks off and no status.",
  },
  {
    file: "src/gateway/http/json-reader.ts",
    from: "let isPlain = true;",
    to: "let isPlain = false;",
    why: "Text without escapes is the same when it is parsed like one with escapes; it takes longer.",
  },
  {
    file: "src/turn/tool-results.ts",
    from: 'if (value.result.case !== "success") return undefined;',
    to: "if (false) return undefined;",
    why: "Only successes come there; the line tells the compiler so.",
  },
  {
    file: "src/turn/shell-turn.ts",
    from: 'if (!isShell || message.value.result.case !== "success") return undefined;',
    to: 'if (!isShell && message.value.result.case !== "success") return undefined;',
    why: "No other end of a command has any of the fields that are read of it.",
  },
  {
    file: "src/gateway/sealed-rows.ts",
    from: "const BEHIND_MS = 100;",
    to: "const BEHIND_MS = (100 + 1);",
    why: "What waits is written a millisecond later; what a killed process could not write, a start reads from the log.",
  },
];
