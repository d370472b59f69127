/**
 * F3: how often one client of one stream connects. Counted per life of the client, since a restart
 * starts with a full budget, and by the client's own clock: after a sleep of a minute it has waited for a minute.
 */
import { DEFAULTS } from "../../src/core/retry.ts";
import { fail } from "./log-checks.ts";
import type { SteadyClock } from "../../src/transport/environment.ts";

const WINDOW_MS = 60_000;

/** The first connect of a stream is no retry. */
const CONNECTS_MAX = 1 + DEFAULTS.budget.burst + Math.ceil(WINDOW_MS / DEFAULTS.budget.refillMs) + 1;

export class RetryChecks {
  readonly #clock: SteadyClock;
  readonly #connects = new Map<string, number[]>();

  constructor(clock: SteadyClock) {
    this.#clock = clock;
  }

  /** `others`: how many more of this client's streams have or had the name; each has a budget of its own. */
  connecting(idempotencyKey: string, others: number): void {
    const nowMs = this.#clock.now();
    const recent = (this.#connects.get(idempotencyKey) ?? []).filter((atMs) => nowMs - atMs < WINDOW_MS);
    recent.push(nowMs);
    this.#connects.set(idempotencyKey, recent);
    if (recent.length > CONNECTS_MAX * (1 + others))
      fail("F3", `${recent.length} connects of one stream within a minute`);
  }
}
