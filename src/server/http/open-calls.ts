/**
 * The calls that go on, by the API key that opened each: one that is revoked ends them, too.
 *
 * Looked at again now and then rather than told, so that it does not matter which process revoked it.
 */
import type { Exchange } from "../../transport/node/exchange.ts";

export class OpenCalls {
  readonly #isGood: (apiKey: string | undefined) => Promise<boolean>;
  readonly #calls = new Map<string | undefined, Set<Pick<Exchange, "destroy">>>();
  readonly #timer: NodeJS.Timeout;

  constructor(isGood: (apiKey: string | undefined) => Promise<boolean>, intervalMs: number) {
    this.#isGood = isGood;
    this.#timer = setInterval(() => void this.#check(), intervalMs);
    this.#timer.unref();
  }

  /** Returns what is to be called when the call is over. */
  add(apiKey: string | undefined, exchange: Pick<Exchange, "destroy">): () => void {
    const calls = this.#calls.get(apiKey) ?? new Set();
    this.#calls.set(apiKey, calls);
    calls.add(exchange);
    return () => {
      calls.delete(exchange);
      if (calls.size === 0 && this.#calls.get(apiKey) === calls) this.#calls.delete(apiKey);
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    for (const [apiKey, calls] of this.#calls) {
      if (await this.#isGood(apiKey)) continue;
      // Hung up on, a client comes back, and then it is told why.
      for (const exchange of calls) exchange.destroy();
    }
  }
}
