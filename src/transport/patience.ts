/**
 * Gives up a call in which nothing moves any more: neither TCP nor HTTP says by itself that the other end has vanished.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Environment } from "./environment.ts";

export interface Patience {
  /** Fires when it has run out. */
  readonly signal: AbortSignal;
  /** Something moved. */
  renew(): void;
  end(): void;
}

export function patienceOf(environment: Environment, limitMs: number): Patience {
  const abort = new AbortController();

  function wait(): () => void {
    return environment.after(limitMs, () =>
      abort.abort(new HoldfastError("connection_lost", "the server does not answer")),
    );
  }

  let cancel = wait();
  return {
    signal: abort.signal,
    renew() {
      cancel();
      cancel = wait();
    },
    end: () => cancel(),
  };
}
