/**
 * What `useChat` shows of a turn: whatever happened on the way, it is what the turn says.
 *
 * Turns are drawn at random (steps that grow, are cut off and begin anew, tools in every state); their chunks go through the AI SDK's own reader.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import * as fc from "fast-check";
import { chunksBetween, NOTHING_SHOWN } from "../../src/ai-sdk/ui-chunks.ts";
import { answerOf } from "../../src/ai-sdk/ui-message.ts";
import type { ToolView, ViewPart } from "../../src/turn/view.ts";

const TEXT = fc.string({ unit: "binary", maxLength: 12 });
const OP = fc.oneof(
  fc.record({ kind: fc.constantFrom("text", "thinking"), text: TEXT }),
  fc.record({ kind: fc.constantFrom("call", "args", "run", "output"), text: TEXT }),
  fc.record({
    kind: fc.constant("over"),
    text: TEXT,
    outcome: fc.constantFrom("done", "failed", "denied", "unknown"),
  }),
  fc.record({ kind: fc.constant("user"), text: TEXT }),
  fc.record({ kind: fc.constantFrom("step", "cut", "cut"), text: fc.constant("") }),
);
type Op = typeof OP extends fc.Arbitrary<infer Value> ? Value : never;

const NEW_CALL: ToolView = {
  type: "tool",
  step: 0,
  toolCallId: "",
  tool: "weather",
  args: "",
  argsBlobId: undefined,
  state: "writing",
  outcome: undefined,
  result: undefined,
  resultBlobId: undefined,
  execIds: [],
  output: "",
  outputOmitted: 0,
  outputRest: "",
  progress: [],
};

/** A turn of which everything since its step's beginning may be taken back. */
class Drawn {
  parts: readonly ViewPart[] = [];
  #mark: readonly ViewPart[] = [];
  #step = 0;
  #calls = 0;

  do(op: Op): void {
    const last = this.parts.at(-1);
    const step = this.#step;
    const tool = last?.type === "tool" ? last : undefined;
    switch (op.kind) {
      case "text":
      case "thinking": {
        const isGrowing = last?.type === op.kind && last.step === step;
        const text = (isGrowing ? last.text : "") + op.text;
        const part: ViewPart =
          op.kind === "text"
            ? { type: "text", step, text }
            : { type: "thinking", step, text, durationMs: undefined };
        this.parts = [...(isGrowing ? this.parts.slice(0, -1) : this.parts), part];
        return;
      }
      case "user":
        // It is taken up between two steps.
        this.parts = [...this.parts, { type: "user", text: op.text, messageId: `m${this.parts.length}` }];
        this.#step++;
        this.#mark = this.parts;
        return;
      case "call": {
        const toolCallId = `call-${this.#calls++ % 2}-${this.parts.length}`;
        this.parts = [...this.parts, { ...NEW_CALL, step, toolCallId, args: '{"a":1}' }];
        return;
      }
      case "step":
        this.#step++;
        this.#mark = this.parts;
        return;
      case "cut":
        this.parts = this.#mark;
        return;
      default:
        if (tool !== undefined && tool.step === step) this.#change(tool, op);
    }
  }

  #change(call: ToolView, op: Op): void {
    const changed = ((): ToolView => {
      if (op.kind === "run" && call.state === "writing")
        return { ...call, state: "running", execIds: [`exec-${this.#calls}`] };
      if (op.kind === "output" && call.state === "running") return { ...call, output: call.output + op.text };
      if (op.kind === "over" && "outcome" in op && call.state === "running")
        return { ...call, state: "over", outcome: op.outcome, result: op.text };
      return call;
    })();
    this.parts = [...this.parts.slice(0, -1), changed];
  }
}

async function shownBy(chunks: readonly UIMessageChunk[]): Promise<UIMessage | undefined> {
  const stream = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      controller.enqueue({ type: "start", messageId: "turn.answer" });
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let last: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;
  return last;
}

/** Only what a page can see: `useChat` keeps a few fields for itself. */
function plain(message: UIMessage | undefined): unknown {
  const parts = Array.from(message?.parts ?? [], (part) => ({
    ...part,
    ...("approval" in part ? { approval: part.approval?.approved === false } : {}),
    rawInput: undefined,
    ...(part.type === "text" || part.type === "reasoning" ? { id: undefined, state: undefined } : {}),
    ...("state" in part && part.state === "input-streaming" ? { input: undefined } : {}),
  }));
  // A step that was taken back whole leaves its beginning, and what a user says in between is of no step.
  const isMarked = ({ type }: { readonly type: string }, at: number): boolean =>
    type !== "step-start" ||
    (at < parts.length - 1 && !parts.some((part) => part.type === "steering-message"));
  return JSON.parse(JSON.stringify(parts.filter(isMarked)));
}

test("G1: whatever a turn says and takes back, useChat shows what the turn says", async () => {
  let retracted = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(OP, fc.boolean()), { minLength: 4, maxLength: 40 }),
      fc.boolean(),
      async (ops, isOver) => {
        const turn = new Drawn();
        let shown = NOTHING_SHOWN;
        const chunks: UIMessageChunk[] = [];
        const show = (isLast: boolean): void => {
          const told = chunksBetween(shown, { parts: turn.parts, approvals: [], isOver: isLast && isOver });
          ({ shown } = told);
          chunks.push(...told.chunks);
        };
        for (const [op, isShown] of ops) {
          turn.do(op);
          if (isShown) show(false);
        }
        show(true);
        retracted += chunks.filter(({ type }) => type === "reset-step").length;
        const expected = turn.parts.length === 0 ? undefined : answerOf({ id: "turn", parts: turn.parts });
        assert.deepEqual(plain(await shownBy(chunks)), plain(expected));
      },
    ),
    { numRuns: 300, seed: 16 },
  );
  assert.ok(retracted > 20, `only ${retracted} steps were taken back`);
});

test("C7: a call that waits is asked about once, and goes on when it was answered", () => {
  const call: ToolView = { ...NEW_CALL, toolCallId: "c", args: "{}", state: "running", execIds: ["exec-1"] };
  const approvals = [{ id: "approval", execId: "exec-1" }];
  const asked = chunksBetween(NOTHING_SHOWN, { parts: [call], approvals, isOver: false });
  assert.deepEqual(asked.chunks.at(-1), {
    type: "tool-approval-request",
    approvalId: "approval",
    toolCallId: "0.c",
  });
  const again = chunksBetween(asked.shown, { parts: [{ ...call }], approvals, isOver: false });
  assert.deepEqual(again.chunks, []);
  const over: ToolView = { ...call, state: "over", outcome: "done", result: "sunny" };
  const done = chunksBetween(again.shown, { parts: [over], approvals: [], isOver: false });
  assert.deepEqual(done.chunks, [{ type: "tool-output-available", toolCallId: "0.c", output: "sunny" }]);
});
