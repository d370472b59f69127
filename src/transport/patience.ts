/**
 * Gives up a call in which nothing moves any more: neither TCP nor HTTP says by itself that the other end has vanished.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Environment } from "./environment.ts";

export function patienceOf(environment: Environment, limitMs: number) {
  const abort = new AbortController();

  function wait(): () => void {
    return environment.after(limitMs, () =>
      abort.abort(new HoldfastError("connection_lost", "the server does not answer")),
    );
  }

  let cancel = wait();
  return {
    /** Fires when it has run out. */
    signal: abort.signal,
    /** Something moved. */
    renew() {
      cancel();
      cancel = wait();
    },
    end: () => cancel(),
  };
}
