/**
 * How long a provider is waited for, and how it is asked again.
 */
import type { Backoff } from "../../turn/attempts.ts";
import { STALL_CLOCKS, type StallClocks } from "./upstream/stall-clocks.ts";

export interface Patience extends StallClocks, Backoff {}

export const DEFAULT_PATIENCE: Patience = {
  ...STALL_CLOCKS,
  backoffMs: 1_000,
  retryAfterMsMax: 20_000,
};
