/**
 * Notices that the network may work again, so that no stream waits for its timer.
 *
 * Node has no `online` event. The watcher looks at the machine's addresses every two seconds: a cable that was plugged in, a
 * Wi-Fi that was joined or a VPN that came up changes them. A look that comes far too late means that the machine slept.
 */
import { networkInterfaces } from "node:os";

interface NetworkWatch {
  /** Every address of the machine, as one text. */
  readonly addresses: () => string;
  readonly now: () => number;
  readonly intervalMs: number;
}

export const SYSTEM_NETWORK: NetworkWatch = {
  addresses: () =>
    Object.entries(networkInterfaces())
      .flatMap(([name, all = []]) => all.map(({ cidr }) => `${name} ${cidr}`))
      .join(),
  now: () => Date.now(),
  intervalMs: 2_000,
};

/** So many looks missed in a row are a sleep, not a busy process. */
const SLEEP_LOOKS = 5;

/** Returns how to stop it. The timer keeps no process alive. */
export function onNetworkChange(
  wake: () => void,
  { addresses, now, intervalMs }: NetworkWatch = SYSTEM_NETWORK,
): () => void {
  let seen = addresses();
  let lookedMs = now();
  const timer = setInterval(() => {
    const [before, beforeMs] = [seen, lookedMs];
    [seen, lookedMs] = [addresses(), now()];
    if (seen !== before || lookedMs - beforeMs > SLEEP_LOOKS * intervalMs) wake();
  }, intervalMs);
  timer.unref();
  return () => {
    clearInterval(timer);
  };
}
