/**
 * What a request that is passed on may take: bytes, time, and places at once (E8).
 */
import { LIMITS } from "../../protocol/limits.ts";

export interface PassedLimits {
  readonly bodyBytesMax: number;
  readonly bodyTimeoutMs: number;
  readonly answerBytesMax: number;
  /** Until the provider's head: an image takes minutes. */
  readonly headMs: number;
  /** Between two pieces of the provider's answer. */
  readonly silenceMs: number;
  /** Requests under way. */
  readonly atOnceMax: number;
}

const MIB = 1024 * 1024;

export const PASSED_LIMITS: PassedLimits = Object.freeze({
  bodyBytesMax: LIMITS.bodyBytesMax,
  bodyTimeoutMs: 300_000,
  answerBytesMax: 256 * MIB,
  headMs: 300_000,
  silenceMs: 120_000,
  atOnceMax: 256,
});
