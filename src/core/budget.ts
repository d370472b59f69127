/**
 * A token bucket: how often something may happen, in bursts and in the long run.
 *
 * Invariant: within any span of T ms at most `burst + T / refillMs` tokens are spent (E1, F3).
 */
import { assert } from "../protocol/assert.ts";

export interface Options {
  /** How many may happen at once. */
  readonly burst: number;
  /** After how long one more may happen. */
  readonly refillMs: number;
}

export interface State {
  readonly options: Options;
  readonly tokens: number;
  /** Tokens are counted up to this moment. */
  readonly atMs: number;
}

export function init(options: Options, nowMs: number): State {
  assert(options.burst >= 1 && options.refillMs > 0, "a budget allows something");
  return { options, tokens: options.burst, atMs: nowMs };
}

/** Spends a token. Without one, says how long to wait for it, and owes it: the wait is the caller's turn. */
export function spend(state: State, nowMs: number): readonly [State, { readonly waitMs: number }] {
  const tokens = tokensAt(state, nowMs) - 1;
  return [
    { ...state, tokens, atMs: Math.max(state.atMs, nowMs) },
    { waitMs: tokens >= 0 ? 0 : Math.ceil(-tokens * state.options.refillMs) },
  ];
}

/** Spends a token if there is one. Without one, says how long to wait until there is, and owes nothing: the caller is refused. */
export function take(state: State, nowMs: number): readonly [State, { readonly waitMs: number }] {
  const [spent, { waitMs }] = spend(state, nowMs);
  return waitMs === 0 ? [spent, { waitMs }] : [{ ...spent, tokens: spent.tokens + 1 }, { waitMs }];
}

/** Gives back a token that turned out not to be needed. */
export function giveBack(state: State): State {
  return { ...state, tokens: Math.min(state.options.burst, state.tokens + 1) };
}

/** Whether nothing of the burst is spent: then the state says nothing that `init` would not. */
export function isWhole(state: State, nowMs: number): boolean {
  return tokensAt(state, nowMs) === state.options.burst;
}

function tokensAt({ options: { burst, refillMs }, tokens, atMs }: State, nowMs: number): number {
  // A clock that jumped back refills nothing, and must not take away either.
  return Math.min(burst, tokens + Math.max(0, nowMs - atMs) / refillMs);
}
