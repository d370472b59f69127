/**
 * The network between one node and PostgreSQL, as a TCP proxy: it cuts connections, delays what passes, or goes half open.
 *
 * Half open: nothing breaks, and nothing arrives any more, in neither direction. A commit that is on its way then is one that nobody can tell the fate of. When the link is
 * mended, whatever was half open breaks. A delay keeps the order of what it delays.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface DatabaseLink {
  readonly port: number;
  /** Of each piece, from now on. */
  delayMs: number;
  /** All connections at once, whatever is on its way; new ones are let through. */
  cut(): void;
  halfOpen(): void;
  mend(): void;
  close(): Promise<void>;
}

export async function openDatabaseLink(serverPort: number): Promise<DatabaseLink> {
  const sockets = new Set<Socket>();
  const silent = new Set<Socket>();
  let isHalfOpen = false;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    if (isHalfOpen) silent.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      silent.delete(socket);
    });
    return socket;
  };
  const carry = (from: Socket, to: Socket): void => {
    let before = Promise.resolve();
    let waiting = 0;
    const pass = (bytes: Buffer): void => {
      if (!silent.has(from)) to.write(bytes);
    };
    const passLate = async (bytes: Buffer, behind: Promise<void>): Promise<void> => {
      await Promise.all([behind, sleep(link.delayMs)]);
      waiting--;
      pass(bytes);
    };
    from.on("data", (bytes: Buffer) => {
      if (link.delayMs === 0 && waiting === 0) return pass(bytes);
      waiting++;
      before = passLate(bytes, before);
    });
    from.on("close", () => {
      if (!silent.has(from)) to.destroySoon();
    });
  };
  const server = createServer((node) => {
    const upstream = keep(connect(serverPort, "127.0.0.1"));
    carry(keep(node), upstream);
    carry(upstream, node);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  const link: DatabaseLink = {
    port: address.port,
    delayMs: 0,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    halfOpen() {
      isHalfOpen = true;
      for (const socket of sockets) silent.add(socket);
    },
    mend() {
      isHalfOpen = false;
      for (const socket of silent) socket.destroy();
    },
    async close() {
      link.cut();
      server.close();
      await once(server, "close");
    },
  };
  return link;
}
