/**
 * A port for a server that is killed and started again on it.
 *
 * The system gives the ports that it chooses itself to outgoing connections as well. While the server is away, any process of the machine may
 * get its port. So a port below all of those is chosen by lot.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

const [FIRST, END] = [10_000, 32_000];

export async function keptPort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END);
    const probe = createServer();
    probe.listen(port, "127.0.0.1");
    const isFree = await Promise.race([
      once(probe, "listening").then(() => true),
      once(probe, "error").then(() => false),
    ]).catch(() => false);
    if (!isFree) continue;
    probe.close();
    await once(probe, "close");
    return port;
  }
}
