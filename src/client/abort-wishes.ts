/**
 * Those who have asked for a stop and wait to hear that their wish cannot be lost any more.
 */
import { isAbortSafe, type State } from "../core/client-state.ts";
import { HoldfastError } from "../protocol/errors.ts";

export function abortWishes() {
  const waiting: { readonly resolve: () => void; readonly reject: (error: HoldfastError) => void }[] = [];

  return {
    add(): Promise<void> {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      // The caller need not wait for it.
      promise.catch(() => undefined);
      waiting.push({ resolve, reject });
      return promise;
    },
    settle(state: State): void {
      if (waiting.length === 0) return;
      const isSafe = isAbortSafe(state);
      if (!isSafe && state.phase !== "stopped") return;
      const lost = new HoldfastError("unavailable", "the stream was given up before the abort was recorded");
      for (const { resolve, reject } of waiting.splice(0)) (isSafe ? resolve : reject)(lost);
    },
  };
}
