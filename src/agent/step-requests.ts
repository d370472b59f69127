/**
 * Counts the requests that a step sends to providers, for the rules of `src/turn/attempts.ts`.
 *
 * Only the very first request of a step leaves before its event is on disk: a count that a crash loses would be no bound (G2).
 */
import { mayWait, STEP_REQUESTS_MAX } from "../turn/attempts.ts";
import { UNTOLD_REQUESTS_MAX } from "../turn/open-step.ts";
import { ModelFailure, type RequestBudget } from "./model.ts";

interface StepRequestsOptions {
  /** Sent before, by runs that are gone. */
  readonly before: number;
  /** The client reads a stream with a head that may still be held back. */
  readonly isHeadHeld: boolean;
  readonly now: () => number;
  /** Puts into the log how many the step has sent. */
  readonly tell: (requests: number) => void;
  /** Until all that was said so far is on disk. */
  readonly untilDurable: () => Promise<void>;
}

export class StepRequests implements RequestBudget {
  readonly #options: StepRequestsOptions;
  #sent: number;
  #attemptBefore: number;
  #firstMs: number | undefined;

  constructor(options: StepRequestsOptions) {
    this.#options = options;
    this.#sent = options.before;
    this.#attemptBefore = options.before;
  }

  get sent(): number {
    return this.#sent;
  }

  /** Since the first one of this run. */
  get passedMs(): number {
    const nowMs = this.#options.now();
    return nowMs - (this.#firstMs ?? nowMs);
  }

  beginAttempt(): void {
    this.#attemptBefore = this.#sent;
  }

  async take(): Promise<void> {
    if (this.#sent >= STEP_REQUESTS_MAX) throw exhausted();
    this.#sent++;
    const isFirst = this.#firstMs === undefined;
    this.#firstMs ??= this.#options.now();
    if (this.#sent - this.#attemptBefore > UNTOLD_REQUESTS_MAX) this.#options.tell(this.#sent);
    if (!isFirst) await this.#options.untilDurable();
  }

  mayWait(pauseMs: number): boolean {
    const { passedMs } = this;
    return mayWait({ requests: this.#sent, passedMs }, this.#options.isHeadHeld, pauseMs);
  }
}

function exhausted(): ModelFailure {
  const message = `the step has asked its provider ${STEP_REQUESTS_MAX} times, which is the most; send it again`;
  return new ModelFailure("unavailable", message);
}
