/**
 * The calls that go on, by the API key that opened each: one that is revoked ends them, too.
 *
 * Looked at again now and then rather than told, so that it does not matter which process revoked it.
 */
import type { Exchange } from "../../transport/node/exchange.ts";

export type OpenCalls = ReturnType<typeof openCalls>;

export function openCalls(isGood: (apiKey: string | undefined) => Promise<boolean>, intervalMs: number) {
  const calls = new Map<string | undefined, Set<Pick<Exchange, "destroy">>>();

  async function check(): Promise<void> {
    for (const [apiKey, open] of calls) {
      if (await isGood(apiKey)) continue;
      // Hung up on, a client comes back, and then it is told why.
      for (const exchange of open) exchange.destroy();
    }
  }

  const timer = setInterval(() => void check(), intervalMs).unref();
  return {
    /** Returns what is to be called when the call is over. */
    add(apiKey: string | undefined, exchange: Pick<Exchange, "destroy">): () => void {
      const open = calls.get(apiKey) ?? new Set();
      calls.set(apiKey, open);
      open.add(exchange);
      return () => {
        open.delete(exchange);
        if (open.size === 0 && calls.get(apiKey) === open) calls.delete(apiKey);
      };
    },
    close: () => clearInterval(timer),
  };
}
