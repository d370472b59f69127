/**
 * How long a provider is waited for, and how it is asked again.
 */
export interface Patience {
  /** From the request to the first sign of an answer. Long: a local server reads a long prompt for minutes. */
  readonly firstPartMs: number;
  /** Between two signs of life. Long: a model that thinks may say nothing. Node's own limit is 300 s. */
  readonly betweenPartsMs: number;
  /** The first pause before another try is at most this, the second twice; chosen at random (full jitter). */
  readonly backoffMs: number;
  /** A provider that asks for a longer pause is not waited for: the user decides. */
  readonly retryAfterMsMax: number;
}

export const DEFAULT_PATIENCE: Patience = {
  firstPartMs: 240_000,
  betweenPartsMs: 240_000,
  backoffMs: 1_000,
  retryAfterMsMax: 20_000,
};
