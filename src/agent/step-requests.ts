/**
 * How many requests a step has sent to providers, and how long it may wait for the next one.
 *
 * The count is durable: each attempt begins with an event that says how many were sent before it, and only the very first request of a step leaves
 * before its event is on disk. What a killed attempt has sent is not known, so it counts for all that it may have.
 *
 * Invariant: over all attempts, tries and kills a step sends at most `STEP_REQUESTS_MAX` requests (G2).
 */
import { ModelFailure, type RequestBudget } from "./model.ts";

export const STEP_REQUESTS_MAX = 12;

/** What an attempt may have sent that was killed: a model asks three times at the most while nothing was said. */
export const ATTEMPT_REQUESTS_MAX = 3;

/**
 * So long the gateway keeps the head of a streamed answer back, to tell of a failure by an HTTP status. A wait that ends later would turn the
 * provider's status into an error within the stream: the client, which knows the status, does better by itself.
 */
const HEAD_HELD_MS = 10_000;

export interface StepRequestsOptions {
  /** Sent before, by runs that are gone. */
  readonly before: number;
  /** The client reads a stream with a head that may still be held back. */
  readonly isHeadHeld: boolean;
  readonly now: () => number;
  /** Until all that was said so far is on disk. */
  readonly untilDurable: () => Promise<void>;
}

export class StepRequests implements RequestBudget {
  readonly #options: StepRequestsOptions;
  #sent: number;
  #firstMs: number | undefined;

  constructor(options: StepRequestsOptions) {
    this.#options = options;
    this.#sent = options.before;
  }

  get sent(): number {
    return this.#sent;
  }

  get isSpent(): boolean {
    return this.#sent >= STEP_REQUESTS_MAX;
  }

  async take(): Promise<void> {
    if (this.isSpent) throw exhausted();
    this.#sent++;
    const isFirst = this.#firstMs === undefined;
    this.#firstMs ??= this.#options.now();
    if (!isFirst) await this.#options.untilDurable();
  }

  mayWait(pauseMs: number): boolean {
    if (this.isSpent) return false;
    const { isHeadHeld, now } = this.#options;
    const passedMs = now() - (this.#firstMs ?? now());
    return !isHeadHeld || passedMs >= HEAD_HELD_MS || passedMs + pauseMs <= HEAD_HELD_MS;
  }
}

function exhausted(): ModelFailure {
  const message = `the step has asked its provider ${STEP_REQUESTS_MAX} times, which is the most; send it again`;
  return new ModelFailure("unavailable", message);
}
