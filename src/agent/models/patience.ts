/**
 * How long a provider is waited for, and how it is asked again.
 */
import { STALL_CLOCKS, type StallClocks } from "./upstream/stall-clocks.ts";

export interface Patience extends StallClocks {
  /** The first pause before another try is at most this, the second twice; chosen at random (full jitter). */
  readonly backoffMs: number;
  /** A provider that asks for a longer pause is not waited for: the user decides. */
  readonly retryAfterMsMax: number;
}

export const DEFAULT_PATIENCE: Patience = {
  ...STALL_CLOCKS,
  backoffMs: 1_000,
  retryAfterMsMax: 20_000,
};

/** The pause before another try, after so many; undefined when the provider asks for a longer one than is waited for. */
export function pauseMsBefore(
  tries: number,
  retryAfterMs: number | undefined,
  { backoffMs, retryAfterMsMax }: Pick<Patience, "backoffMs" | "retryAfterMsMax"> = DEFAULT_PATIENCE,
): number | undefined {
  if (retryAfterMs === undefined) return Math.random() * backoffMs * 2 ** (tries - 1);
  return retryAfterMs <= retryAfterMsMax ? retryAfterMs : undefined;
}
