/**
 * The open calls, by the API key that opened each: revoking it ends them, too.
 *
 * The API keys are checked again at intervals, so it does not matter which process revoked one.
 */
import type { Exchange } from "../../transport/node/exchange.ts";
import { PassingSet } from "../../protocol/passing.ts";

export type OpenCalls = ReturnType<typeof openCalls>;

export function openCalls(isGood: (apiKey: string | undefined) => Promise<boolean>, intervalMs: number) {
  const calls = new Map<string | undefined, PassingSet<Pick<Exchange, "destroy">>>();

  async function check(): Promise<void> {
    for (const [apiKey, open] of calls) {
      if (await isGood(apiKey)) continue;
      // A client that is hung up on reconnects, and the refusal says why.
      for (const exchange of open) exchange.destroy();
    }
  }

  const timer = setInterval(() => void check(), intervalMs).unref();
  return {
    /** Returns what is to be called when the call is over. */
    add(apiKey: string | undefined, exchange: Pick<Exchange, "destroy">): () => void {
      const open = calls.get(apiKey) ?? new PassingSet();
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
