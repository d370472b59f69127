/**
 * A port for a server that is killed and started again on it.
 *
 * The system gives the ports that it chooses itself to outgoing connections as well. While the server is away, any process of the machine may
 * get its port. So a port below all of those is chosen by lot. Test files run beside each other, and each starts hundreds of servers: this process
 * claims the port by a socket whose name holds the number, before it looks whether the port is free, and keeps the claim until it ends.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** Browsers and `fetch` refuse 10080, and none of those above it. */
const [FIRST, END] = [10_081, 32_000];

export async function keptPort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END);
    const claim = await claimOf(port);
    if (claim === undefined) continue;
    const probe = await listening({ port, host: "127.0.0.1" });
    if (probe === undefined) {
      claim.close();
      continue;
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
}

/** A name without a file, which the system gives back when the process ends, however it ends. Only Linux has such names. */
async function claimOf(port: number): Promise<Server | undefined> {
  const name = `\0holdfast-test-port-${String(port)}`;
  const claim = await listening(process.platform === "linux" ? { path: name } : { port: 0 });
  return claim?.unref();
}

async function listening(where: { readonly port?: number; readonly host?: string; readonly path?: string }) {
  const server = createServer();
  server.listen(where);
  const isFree = await Promise.race([
    once(server, "listening").then(() => true),
    once(server, "error").then(() => false),
  ]).catch(() => false);
  return isFree ? server : undefined;
}
