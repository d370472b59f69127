/**
 * A provider's answer that broke, or never came: where, and why.
 *
 * Not for a failure that the provider reported: then its own words count (`failures.ts`). It holds nothing of the answer, the prompt or the API key.
 */
import type { BreakCause, Phase } from "./answer-progress.ts";
import type { TokensSeen } from "./wire-events.ts";

export interface BreakReport {
  readonly phase: Phase;
  readonly why: BreakCause;
  /** What the provider had counted by then: paid for, and thrown away unless the answer was whole. */
  readonly tokens: TokensSeen;
}

export class ProviderBreak extends Error implements BreakReport {
  readonly phase: Phase;
  readonly why: BreakCause;
  readonly tokens: TokensSeen;
  /** Of a stall: how long there was no content. */
  readonly silentMs: number;

  constructor({ phase, why, tokens }: BreakReport, silentMs: number, cause?: unknown) {
    super(`the provider's answer broke (${phase}, ${why})`, { cause });
    this.phase = phase;
    this.why = why;
    this.tokens = tokens;
    this.silentMs = silentMs;
  }
}
