/**
 * SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once. Nothing
 * acknowledged is lost either way: orderly only means that clients are told to come back.
 */
const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const CODES = { SIGINT: 130, SIGTERM: 143 } as const;

export type StopSignal = (typeof SIGNALS)[number];

/** Resolves with the first signal. `onSecond` is called before the process ends. */
export function stopSignal(onSecond: () => void): Promise<StopSignal> {
  return new Promise((resolve) => {
    let hasCome = false;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        if (hasCome) {
          onSecond();
          process.exit(CODES[signal]);
        }
        hasCome = true;
        resolve(signal);
      });
    }
  });
}
