/**
 * A tool call as it is shown: from the model's first characters of it to its outcome.
 *
 * Calls are found by the ids that came with them. A provider's id may repeat across steps, so it names
 * the last call that has it and is not over; an exec id is unique.
 */
import { bytesOfHex, hexOf } from "../protocol/bytes.ts";
import { lastChars } from "../protocol/characters.ts";
import { type ToolCall } from "../protocol/messages.ts";
import { blobIn, textIn } from "./content.ts";
import type { ToolView, ViewPart } from "./view.ts";
import { outcomeName } from "./tool-outcome.ts";

/** Enough to see what a command is doing; the whole output reaches the model by its result. */
const OUTPUT_CHARS_MAX = 256 * 1024;
const PROGRESS_LINES_MAX = 200;

export const EMPTY_TOOL: ToolView = {
  type: "tool",
  step: 0,
  toolCallId: "",
  tool: "",
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

type Parts = readonly ViewPart[];

/** The place of the last call with that id that is not over; -1 when there is none. */
function openCall(parts: Parts, toolCallId: string): number {
  return parts.findLastIndex(
    (part) => part.type === "tool" && part.toolCallId === toolCallId && part.state !== "over",
  );
}

function changeAt(parts: Parts, at: number, change: (tool: ToolView) => ToolView): Parts {
  const part = parts[at];
  return part?.type === "tool" ? parts.with(at, change(part)) : parts;
}

export function writeCall(
  parts: Parts,
  step: number,
  partial: { readonly toolCallId: string; readonly tool: string; readonly argsJsonDelta: string },
): Parts {
  const { toolCallId, tool, argsJsonDelta } = partial;
  const at = openCall(parts, toolCallId);
  if (at === -1) return [...parts, { ...EMPTY_TOOL, step, toolCallId, tool, args: argsJsonDelta }];
  return changeAt(parts, at, (call) => ({
    ...call,
    tool: tool === "" ? call.tool : tool,
    args: call.args + argsJsonDelta,
  }));
}

/** The call as it is complete now, started or over. */
export function putCall(parts: Parts, step: number, call: ToolCall, state: "running" | "over"): Parts {
  const { toolCallId } = call;
  const byExec = parts.findLastIndex(
    (part) => part.type === "tool" && part.execIds.some((execId) => call.execIds.includes(execId)),
  );
  const at = byExec === -1 ? openCall(parts, toolCallId) : byExec;
  const known = parts[at];
  const before = known?.type === "tool" ? known : { ...EMPTY_TOOL, step };
  const next: ToolView = {
    ...before,
    toolCallId,
    tool: call.tool === "" ? before.tool : call.tool,
    ...(call.argsJson === undefined
      ? {}
      : { args: textIn(call.argsJson) ?? "", argsBlobId: blobIn(call.argsJson) }),
    state,
    // Over, in a way that a newer server has a name for, is unknown.
    outcome: outcomeName(call.outcome) ?? (state === "over" ? "unknown" : undefined),
    result: textIn(call.result),
    resultBlobId: blobIn(call.result),
    execIds: [...new Set([...before.execIds, ...call.execIds])],
  };
  return at === -1 ? [...parts, next] : parts.with(at, next);
}

export function addProgress(
  parts: Parts,
  said: { readonly toolCallId: string; readonly execId: string; readonly text: string },
): Parts {
  const byExec = callOfExec(parts, said.execId);
  const at = byExec === -1 ? openCall(parts, said.toolCallId) : byExec;
  return changeAt(parts, at, (call) => ({
    ...call,
    progress: [...call.progress, said.text].slice(-PROGRESS_LINES_MAX),
  }));
}

function callOfExec(parts: Parts, execId: string): number {
  return parts.findLastIndex((part) => part.type === "tool" && part.execIds.includes(execId));
}

/** Output of a command. One that belongs to no call is the user's own command. */
export function addOutput(parts: Parts, step: number, execId: string, bytes: Uint8Array): Parts {
  const at = callOfExec(parts, execId);
  if (at !== -1) return changeAt(parts, at, (call) => withOutput(call, bytes));
  const own: ToolView = { ...EMPTY_TOOL, step, tool: "shell", state: "running", execIds: [execId] };
  return [...parts, withOutput(own, bytes)];
}

function withOutput(call: ToolView, bytes: Uint8Array): ToolView {
  const rest = bytesOfHex(call.outputRest);
  const whole = new Uint8Array(rest.length + bytes.length);
  whole.set(rest);
  whole.set(bytes, rest.length);
  const cut = wholeCharacters(whole);
  const grown = call.output + new TextDecoder().decode(whole.subarray(0, cut));
  const outputRest = hexOf(whole.subarray(cut));
  // In large steps: cutting at every piece would copy all of it each time.
  if (grown.length <= 2 * OUTPUT_CHARS_MAX) return { ...call, output: grown, outputRest };
  const output = lastChars(grown, OUTPUT_CHARS_MAX);
  const outputOmitted = call.outputOmitted + grown.length - output.length;
  return { ...call, output, outputOmitted, outputRest };
}

/** How many bytes at the beginning are whole characters of UTF-8, as far as the last one can tell. */
function wholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes.length;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
