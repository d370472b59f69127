/**
 * SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once. Nothing
 * acknowledged is lost either way: orderly only means that the server tells clients to reconnect.
 *
 * A server below a parent of its own (`guard.ts`) gets its parent's signals as messages. A service manager that signals every process of a service
 * is thus heard twice, by a signal and by a message, and asks once: only the second from one side is a second.
 */
const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const CODES = { SIGINT: 130, SIGTERM: 143 } as const;

type StopSignal = (typeof SIGNALS)[number];

export function isStopSignal(value: unknown): value is StopSignal {
  return value === "SIGINT" || value === "SIGTERM";
}

/** Even when what is done before cannot be done. */
const SECOND_MS_MAX = 1_000;

/** Said to the parent: from now on signals are heard as messages. */
const LISTENS = "listens";
/** A parent that passes signals on answers so. */
export const GUARDED = "guarded";

/** Resolves with the first signal. `onSecond` is called before the process ends. */
export function stopSignal(onSecond: () => void | Promise<void>): Promise<StopSignal> {
  return new Promise((resolve) => {
    const hear = (): ((signal: StopSignal) => void) => {
      let hasCome = false;
      return (signal) => {
        if (hasCome) {
          const end = (): void => process.exit(CODES[signal]);
          setTimeout(end, SECOND_MS_MAX);
          void Promise.resolve(onSecond()).finally(end);
        }
        hasCome = true;
        resolve(signal);
      };
    };
    const [own, parents] = [hear(), hear()];
    for (const signal of SIGNALS) process.on(signal, () => own(signal));
    if (process.channel === undefined) return;
    process.on("message", (message) => {
      if (isStopSignal(message)) parents(message);
      // Without its parent nothing starts it again, and it would be in the way of the next service.
      if (message === GUARDED) process.once("disconnect", () => parents("SIGTERM"));
    });
    // It keeps no server from its end.
    process.channel.unref();
    process.send?.(LISTENS);
  });
}
