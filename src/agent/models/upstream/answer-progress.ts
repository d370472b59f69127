/**
 * How far a provider's answer has come, as its own events say. Pure.
 *
 * It answers what a lost connection means: behind the finish marker the answer is whole; before it, it is broken, in this phase and after so
 * many tokens. It holds no text.
 *
 * Invariant: an answer is whole when its finish marker came, and by nothing else.
 */
import * as stall from "./stall-clocks.ts";
import type { Meaning, TokensSeen, Writing } from "./wire-events.ts";

/** Where an answer broke. */
export type Phase = "first" | Writing | "after_finish";

/** Why: the body ended, the connection died, content stayed away, the provider said so, or an event cannot be read. */
export type BreakCause = "eof" | "reset" | "stall" | "error" | "decode";

export interface State {
  readonly phase: Phase;
  readonly clock: stall.State;
  readonly tokens: TokensSeen;
  /** When the last event came that was no sign of life. */
  readonly toldMs: number;
  /** The provider has said all that it will. */
  readonly isOver: boolean;
  /** The provider has said itself why there will be no answer. */
  readonly hasError: boolean;
}

export function init(nowMs: number, pings: boolean): State {
  const clock = stall.init(nowMs, pings);
  return { phase: "first", clock, tokens: {}, toldMs: nowMs, isOver: false, hasError: false };
}

/** Bytes; or the provider says that it writes on; or another connection reads the same answer. */
export function heard(state: State, kind: "bytes" | "ping" | "resumed", nowMs: number): State {
  return { ...state, clock: stall.step(state.clock, { kind, nowMs }) };
}

export function heardEvent(state: State, meaning: Meaning, nowMs: number): State {
  const { content, isFinish = false, isLast = false, isPing = false } = meaning;
  const isFinished = isFinish || state.phase === "after_finish";
  return {
    phase: isFinished ? "after_finish" : (content ?? state.phase),
    clock: clockAfter(state.clock, meaning, nowMs),
    tokens: { ...state.tokens, ...meaning.tokens },
    toldMs: isPing ? state.toldMs : nowMs,
    isOver: state.isOver || isLast,
    hasError: state.hasError || meaning.error !== undefined,
  };
}

function clockAfter(clock: stall.State, meaning: Meaning, nowMs: number): stall.State {
  const { content, endsBlock = false, isPing = false } = meaning;
  if (content !== undefined) return stall.step(clock, { kind: "content", writing: content, nowMs });
  if (endsBlock) return stall.step(clock, { kind: "block_ended", nowMs });
  return isPing ? stall.step(clock, { kind: "ping", nowMs }) : clock;
}

export function isWhole({ phase }: State): boolean {
  return phase === "after_finish";
}

/** Until when the next byte is waited for; behind the finish marker this is how long the rest may take, whatever signs of life come (G5). */
export function deadlineMs(state: State, clocks: stall.StallClocks, endingMs: number): number {
  return isWhole(state) ? state.toldMs + endingMs : stall.deadlineMs(state.clock, clocks);
}
