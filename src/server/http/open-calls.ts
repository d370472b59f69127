/**
 * The calls that go on, by the API key that opened each: one that is revoked ends them, too.
 *
 * Looked at again now and then rather than told, so that it does not matter which process revoked it.
 */
import type { Exchange } from "../../transport/node/exchange.ts";

export class OpenCalls {
  readonly #isGood: (authorization: string | undefined) => Promise<boolean>;
  readonly #calls = new Map<string | undefined, Set<Pick<Exchange, "destroy">>>();
  readonly #timer: NodeJS.Timeout;

  constructor(isGood: (authorization: string | undefined) => Promise<boolean>, intervalMs: number) {
    this.#isGood = isGood;
    this.#timer = setInterval(() => void this.#check(), intervalMs);
    this.#timer.unref();
  }

  /** Returns what is to be called when the call is over. */
  add(authorization: string | undefined, exchange: Pick<Exchange, "destroy">): () => void {
    const calls = this.#calls.get(authorization) ?? new Set();
    this.#calls.set(authorization, calls);
    calls.add(exchange);
    return () => {
      calls.delete(exchange);
      if (calls.size === 0 && this.#calls.get(authorization) === calls) this.#calls.delete(authorization);
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    for (const [authorization, calls] of this.#calls) {
      if (await this.#isGood(authorization)) continue;
      // Hung up on, a client comes back, and then it is told why.
      for (const exchange of calls) exchange.destroy();
    }
  }
}
