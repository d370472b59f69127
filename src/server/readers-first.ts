/**
 * Clients read a long log before the application reads it back.
 *
 * Both follow a restart, and share a core. Clients wait for words that the log has; what the application says next comes behind all of them.
 */
import type { HostContext } from "./host-context.ts";

/** A client that takes longer than this reads beside the application. */
const WAIT_MS_MAX = 1_000;
const LOOK_MS = 5;

/** Resolves when no client is behind, or when the time is over. */
export async function readersServed(
  isBehind: () => boolean,
  { clock, environment }: Pick<HostContext, "clock" | "environment">,
): Promise<void> {
  const lateMs = clock.now() + WAIT_MS_MAX;
  while (isBehind() && clock.now() < lateMs)
    await new Promise<void>((resolve) => environment.after(LOOK_MS, resolve));
}
