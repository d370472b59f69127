/**
 * SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once. Nothing
 * acknowledged is lost either way: orderly only means that clients are told to come back.
 */
const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const CODES = { SIGINT: 130, SIGTERM: 143 } as const;

type StopSignal = (typeof SIGNALS)[number];

export function isStopSignal(value: unknown): value is StopSignal {
  return value === "SIGINT" || value === "SIGTERM";
}

/** Even when what is done before cannot be done. */
const SECOND_MS_MAX = 1_000;

/** Resolves with the first signal. `onSecond` is called before the process ends. */
export function stopSignal(onSecond: () => void | Promise<void>): Promise<StopSignal> {
  return new Promise((resolve) => {
    let hasCome = false;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        if (hasCome) {
          const end = (): void => process.exit(CODES[signal]);
          setTimeout(end, SECOND_MS_MAX);
          void Promise.resolve(onSecond()).finally(end);
        }
        hasCome = true;
        resolve(signal);
      });
    }
  });
}
