/**
 * A token bucket: how often something may happen, in bursts and in the long run.
 *
 * Invariant: within any span of T ms at most `burst + T / refillMs` tokens are spent (E1, F3).
 */
import { assert } from "./assert.ts";

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
  const { burst, refillMs } = state.options;
  // A clock that jumped back refills nothing, and must not take away either.
  const passed = Math.max(0, nowMs - state.atMs);
  const tokens = Math.min(burst, state.tokens + passed / refillMs) - 1;
  return [
    { ...state, tokens, atMs: Math.max(state.atMs, nowMs) },
    { waitMs: tokens >= 0 ? 0 : Math.ceil(-tokens * refillMs) },
  ];
}
