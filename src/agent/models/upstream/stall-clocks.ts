/**
 * How long a provider may keep an answer waiting, and when it has kept it too long. Pure: time comes in as `nowMs`.
 *
 * A provider that only pings keeps its connection alive, and nothing else: pings and comments are never content (G5). So each clock is started
 * anew by content alone, and how long it runs depends on what the model was doing.
 *
 * Invariant: without content every answer has a deadline, and no ping moves it past the bound of its clock.
 */
import { unreachable } from "../../../protocol/assert.ts";
import type { Writing } from "./wire-events.ts";

export interface StallClocks {
  /** From the request to the first content. Long: a local server reads a long prompt for minutes. */
  readonly firstContentMs: number;
  /** Between two pieces of text or arguments: a model that writes does not pause for long. */
  readonly writingMs: number;
  /** The same while the provider pings, and so says that it has not forgotten the answer. */
  readonly pingedWritingMs: number;
  /** While the model thinks, or between two blocks: it may say nothing for long. */
  readonly thinkingMs: number;
  /** The same without a single byte, of a provider that was seen to ping. */
  readonly quietThinkingMs: number;
  /** Without content, whatever else comes. */
  readonly noContentMs: number;
  /** What the user has set for this provider: no clock is longer. */
  readonly silenceMs: number;
}

export const STALL_CLOCKS: StallClocks = {
  firstContentMs: 240_000,
  writingMs: 60_000,
  pingedWritingMs: 90_000,
  thinkingMs: 240_000,
  quietThinkingMs: 120_000,
  noContentMs: 600_000,
  silenceMs: 600_000,
};

export interface State {
  readonly doing: "nothing_yet" | "between" | Writing;
  /** Of the last content; of the request while there was none. */
  readonly contentMs: number;
  /** When another connection began to read the same answer; the content before it while there was none. */
  readonly resumedMs: number;
  readonly byteMs: number;
  /** Behind the last content. */
  readonly isPinged: boolean;
  /** This provider pings: then its silence says something. */
  readonly pings: boolean;
}

export type Input =
  | { readonly kind: "bytes" | "ping" | "block_ended" | "resumed"; readonly nowMs: number }
  | { readonly kind: "content"; readonly writing: Writing; readonly nowMs: number };

export function init(nowMs: number, pings: boolean): State {
  return { doing: "nothing_yet", contentMs: nowMs, resumedMs: nowMs, byteMs: nowMs, isPinged: false, pings };
}

export function step(state: State, input: Input): State {
  const { nowMs } = input;
  switch (input.kind) {
    case "bytes":
      return { ...state, byteMs: nowMs };
    case "ping":
      return { ...state, byteMs: nowMs, isPinged: true, pings: true };
    case "block_ended":
      return { ...state, byteMs: nowMs, doing: state.doing === "nothing_yet" ? state.doing : "between" };
    case "resumed":
      return { ...state, byteMs: nowMs, resumedMs: nowMs };
    case "content":
      return {
        ...state,
        byteMs: nowMs,
        contentMs: nowMs,
        resumedMs: nowMs,
        isPinged: false,
        doing: input.writing,
      };
    default:
      return unreachable(input);
  }
}

/** When the provider has kept the answer waiting too long. */
export function deadlineMs(state: State, clocks: StallClocks): number {
  const { contentMs } = state;
  const bounds = [contentMs + clocks.noContentMs, contentMs + clocks.silenceMs, clockOf(state, clocks)];
  return Math.min(...bounds);
}

/** An answer that is read on by another connection has its clock anew; the hard bounds run on. */
function clockOf(state: State, clocks: StallClocks): number {
  const { doing, resumedMs: sinceMs, byteMs, isPinged, pings } = state;
  switch (doing) {
    case "nothing_yet":
      return sinceMs + clocks.firstContentMs;
    case "text":
    case "arguments":
      return sinceMs + (isPinged ? Math.max(clocks.pingedWritingMs, clocks.writingMs) : clocks.writingMs);
    case "thinking":
    case "between": {
      const longestMs = sinceMs + clocks.thinkingMs;
      return pings ? Math.min(longestMs, byteMs + clocks.quietThinkingMs) : longestMs;
    }
    default:
      return unreachable(doing);
  }
}
