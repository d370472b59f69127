/**
 * A turn as the AI SDK's `useChat` takes it: chunks that turn what it shows into what the turn is now.
 *
 * `useChat` has one chunk that takes something back, `reset-step`: everything since the last `start-step` goes. That is what a step that begins anew takes
 * back, and nothing before a step's beginning is ever taken back. Pure.
 *
 * Invariant: whatever views come by, the message that `useChat` makes of the chunks is `messageOf` the last of them.
 */
import type { UIMessageChunk } from "ai";
import { assert } from "../protocol/assert.ts";
import { parsedJson } from "../protocol/fields.ts";
import type { PendingApproval } from "../live/index.ts";
import type { ToolView, ViewPart } from "../turn/view.ts";

interface ShownPart {
  readonly view: ViewPart;
  /** Of a text or thought; never used twice. */
  readonly id: string;
  /** Asked, whether it was answered or not. */
  readonly approvalId: string | undefined;
}

/** What `useChat` has got of a turn. */
export interface Shown {
  readonly parts: readonly ShownPart[];
  /** -1 before the first one. */
  readonly step: number;
  /** Where the step under way begins among the parts. */
  readonly stepBegin: number;
  /** The last part is a text or thought that may still grow. */
  readonly isOpen: boolean;
  readonly nextId: number;
}

export const NOTHING_SHOWN: Shown = { parts: [], step: -1, stepBegin: 0, isOpen: false, nextId: 0 };

export interface Frame {
  readonly parts: readonly ViewPart[];
  readonly approvals: readonly Pick<PendingApproval, "id" | "execId">[];
  readonly isOver: boolean;
}

interface Told {
  readonly shown: Shown;
  readonly chunks: readonly UIMessageChunk[];
}

export function chunksBetween(before: Shown, { parts, approvals, isOver }: Frame): Told {
  const chunks: UIMessageChunk[] = [];
  let shown = takenBack(before, parts, chunks);
  for (const [at, view] of parts.entries()) {
    const known = shown.parts[at];
    if (known === undefined) shown = begun(shown, view, chunks);
    const { id = "", approvalId: asked } = shown.parts[at] ?? {};
    const approvalId = asked ?? (view.type === "tool" ? approvalOf(view, approvals) : undefined);
    if (view !== known?.view || approvalId !== asked) {
      chunks.push(...news({ view, id, approvalId }, known));
      shown = { ...shown, parts: shown.parts.with(at, { view, id, approvalId }) };
    }
  }
  if (!isOver) return { shown, chunks };
  shown = closed(shown, chunks);
  if (shown.step >= 0) chunks.push({ type: "finish-step" });
  return { shown, chunks };
}

/** Shows no more than what still stands of the step under way. */
function takenBack(shown: Shown, parts: readonly ViewPart[], chunks: UIMessageChunk[]): Shown {
  const gone = shown.parts.findIndex(({ view }, at) => !isContinued(view, parts[at]));
  if (gone === -1) return shown;
  assert(gone >= shown.stepBegin, "a step that was complete is never taken back");
  chunks.push({ type: "reset-step" });
  return { ...shown, parts: shown.parts.slice(0, shown.stepBegin), isOpen: false };
}

function isContinued(view: ViewPart, by: ViewPart | undefined): boolean {
  if (view === by) return true;
  if (by === undefined || view.type !== by.type || stepOf(view) !== stepOf(by)) return false;
  if (view.type === "tool")
    return by.type === "tool" && view.toolCallId === by.toolCallId && by.args.startsWith(view.args);
  return by.type !== "tool" && by.text.startsWith(view.text);
}

function stepOf(view: ViewPart): number | undefined {
  return view.type === "user" ? undefined : view.step;
}

/** A part that is new, with nothing in it yet. */
function begun(before: Shown, view: ViewPart, chunks: UIMessageChunk[]): Shown {
  let shown = closed(before, chunks);
  const step = stepOf(view) ?? shown.step;
  if (step > shown.step) {
    if (shown.step >= 0) chunks.push({ type: "finish-step" });
    chunks.push({ type: "start-step" });
    shown = { ...shown, step, stepBegin: shown.parts.length };
  }
  const id = `part-${shown.nextId}`;
  const isOpen = view.type === "text" || view.type === "thinking";
  if (view.type === "text") chunks.push({ type: "text-start", id });
  if (view.type === "thinking") chunks.push({ type: "reasoning-start", id });
  const part = { view: emptied(view), id, approvalId: undefined };
  return { ...shown, parts: [...shown.parts, part], isOpen, nextId: shown.nextId + 1 };
}

function emptied(view: ViewPart): ViewPart {
  return view.type === "text" || view.type === "thinking" ? { ...view, text: "" } : view;
}

/** Nothing more is added to the last part. */
function closed(shown: Shown, chunks: UIMessageChunk[]): Shown {
  const last = shown.parts.at(-1);
  if (!shown.isOpen || last === undefined) return shown;
  chunks.push({ type: last.view.type === "text" ? "text-end" : "reasoning-end", id: last.id });
  return { ...shown, isOpen: false };
}

function news({ view, id, approvalId }: ShownPart, known: ShownPart | undefined): readonly UIMessageChunk[] {
  switch (view.type) {
    case "text":
    case "thinking": {
      const seen = known !== undefined && known.view.type !== "tool" ? known.view.text.length : 0;
      const delta = view.text.slice(seen);
      if (delta === "") return [];
      return [{ type: view.type === "text" ? "text-delta" : "reasoning-delta", id, delta }];
    }
    case "user":
      return [{ type: "steering-message", id: view.messageId, parts: [{ type: "text", text: view.text }] }];
    case "tool": {
      const before =
        known?.view.type === "tool" ? { view: known.view, approvalId: known.approvalId } : undefined;
      return toolNews({ view, approvalId }, before);
    }
  }
}

interface ShownCall {
  readonly view: ToolView;
  readonly approvalId: string | undefined;
}

function toolNews(call: ShownCall, known: ShownCall | undefined): readonly UIMessageChunk[] {
  const { view, approvalId } = call;
  const toolCallId = callIdOf(view);
  const who = { toolCallId, toolName: view.tool, dynamic: true, providerExecuted: true } as const;
  const chunks: UIMessageChunk[] = [];
  if (known === undefined) chunks.push({ type: "tool-input-start", ...who });
  if (view.state === "writing") {
    const inputTextDelta = view.args.slice(known?.view.args.length ?? 0);
    if (inputTextDelta !== "") chunks.push({ type: "tool-input-delta", toolCallId, inputTextDelta });
    return chunks;
  }
  if (known === undefined || known.view.state === "writing")
    chunks.push({ type: "tool-input-available", ...who, input: inputOf(view) });
  if (approvalId !== undefined && known?.approvalId === undefined)
    chunks.push({ type: "tool-approval-request", approvalId, toolCallId });
  if (view.state === "over") {
    if (known?.view.state !== "over") chunks.push(...outcomeOf(call));
  } else if (outputOf(view) !== "" && outputOf(view) !== (known && outputOf(known.view)))
    chunks.push({ type: "tool-output-available", toolCallId, output: outputOf(view), preliminary: true });
  return chunks;
}

function outcomeOf({ view, approvalId }: ShownCall): readonly UIMessageChunk[] {
  const toolCallId = callIdOf(view);
  if (view.outcome === "done") return [{ type: "tool-output-available", toolCallId, output: resultOf(view) }];
  if (view.outcome !== "denied") return [{ type: "tool-output-error", toolCallId, errorText: errorOf(view) }];
  const id = approvalId ?? toolCallId;
  const asked: readonly UIMessageChunk[] =
    approvalId === undefined ? [{ type: "tool-approval-request", approvalId: id, toolCallId }] : [];
  return [
    ...asked,
    { type: "tool-approval-response", approvalId: id, approved: false, reason: resultOf(view) },
    { type: "tool-output-denied", toolCallId },
  ];
}

/** A provider's id may come again in another step. */
export function callIdOf({ step, toolCallId }: ToolView): string {
  return `${step}.${toolCallId}`;
}

export function inputOf({ args, argsBlobId }: ToolView): unknown {
  return argsBlobId === undefined ? (parsedJson(args) ?? args) : { blobId: argsBlobId };
}

/** What it has said so far, while it runs. */
export function outputOf({ output, progress }: ToolView): string {
  return output + progress.join("\n");
}

export function resultOf({ result, resultBlobId }: ToolView): string {
  return result ?? (resultBlobId === undefined ? "" : `(a long result, kept as ${resultBlobId})`);
}

export function errorOf(view: ToolView): string {
  const words = view.outcome === "unknown" ? "outcome unknown: it may have run" : (view.outcome ?? "failed");
  return [words, resultOf(view)].filter((text) => text !== "").join(": ");
}

function approvalOf({ execIds }: ToolView, approvals: Frame["approvals"]): string | undefined {
  return approvals.find(({ execId }) => execIds.includes(execId))?.id;
}
