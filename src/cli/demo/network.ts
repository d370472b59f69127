/**
 * The network between clients and servers, as a TCP proxy that can be cut and can go silent. Each connection goes to the next server in turn; one that does not answer is passed over.
 *
 * Cut: connections break and new ones are refused. Silent: nothing breaks, and nothing arrives any more, which
 * is what a lost radio link looks like.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

const noPorts: readonly number[] = [];

type State = "up" | "cut" | "silent";

export type Network = Awaited<ReturnType<typeof openNetwork>>;

export async function openNetwork(port = 0) {
  const server = createServer((socket) => accept(socket)).listen(port, "127.0.0.1");
  const sockets = new Set<Socket>();
  /** Open while the network went silent. */
  const deaf = new WeakSet<Socket>();
  let state: State = "up";
  let turn = 0;
  await once(server, "listening");

  function cut(): void {
    state = "cut";
    breakAll();
  }

  function breakAll(): void {
    for (const socket of sockets) socket.destroy();
  }

  function accept(client: Socket): void {
    if (state === "cut") {
      client.destroy();
      return;
    }
    keep(client);
    if (state === "silent") {
      deaf.add(client);
      // Read and lost, or its end would never be noticed.
      client.resume();
      return;
    }
    reach(client, network.targetPorts.length);
  }

  function reach(client: Socket, left: number): void {
    const targets = network.targetPorts;
    const target = keep(connect(targets[turn++ % targets.length] ?? 0, "127.0.0.1"));
    const passOver = (): void => {
      if (left > 1 && !client.destroyed) reach(client, left - 1);
      else client.destroy();
    };
    target.once("error", passOver);
    target.once("connect", () => {
      target.off("error", passOver);
      carry(client, target);
      carry(target, client);
      if (client.destroyed) target.destroy();
    });
  }

  function keep(socket: Socket): Socket {
    sockets.add(socket);
    socket.setNoDelay(true);
    // A broken connection is what this is for; its end is reported by "close".
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    return socket;
  }

  function carry(from: Socket, to: Socket): void {
    from.on("data", (bytes) => {
      if (deaf.has(from) || to.write(bytes)) return;
      from.pause();
      to.once("drain", () => from.resume());
    });
    from.on("close", () => {
      // What is still on its way arrives.
      if (!deaf.has(from)) to.destroySoon();
    });
  }

  const network = {
    /** Where servers listen at present. */
    targetPorts: noPorts,
    get port(): number {
      const address = server.address();
      return typeof address === "object" && address !== null ? address.port : 0;
    },
    cut,
    silence(): void {
      state = "silent";
      for (const socket of sockets) deaf.add(socket);
    },
    /** A peer that was cut off by silence finds its connection gone. */
    mend(): void {
      if (state === "silent") breakAll();
      state = "up";
    },
    async close(): Promise<void> {
      const closed = once(server, "close");
      server.close();
      cut();
      await closed;
    },
  };
  return network;
}
