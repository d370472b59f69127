/**
 * A server that a command has started on the side: nobody's child, so it is found by its data directory.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Ends it, if there is one, and waits until it is gone. */
export async function stopServer(dataDir: string, signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  const path = join(dataDir, "control.json");
  if (!existsSync(path)) return;
  const pid = Number(/"pid":(?<pid>\d+)/.exec(readFileSync(path, "utf8"))?.groups?.["pid"]);
  try {
    process.kill(pid, signal);
    for (;;) {
      process.kill(pid, 0);
      await sleep(20);
    }
  } catch {
    // It is gone.
  }
}
