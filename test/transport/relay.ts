/**
 * A piece of network between a client and a server: passes bytes on, and can be cut, stopped and watched.
 *
 * Real sockets on both sides, so what happens to a connection through it is what happens to one over a network.
 */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export class Relay {
  readonly #server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  /** Each byte travels by itself. */
  readonly #isByteByByte: boolean;
  #isStopped = false;
  /** Rises with everything that passes. */
  activity = 0;

  private constructor(targetPort: number, isByteByByte: boolean) {
    this.#isByteByByte = isByteByByte;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
      const far = connect({ port: targetPort, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
      this.#join(near, far);
    });
  }

  static async open(targetPort: number, { isByteByByte = false } = {}): Promise<Relay> {
    const relay = new Relay(targetPort, isByteByByte);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    return relay;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  get connectionCount(): number {
    return this.#pairs.size;
  }

  /** Both sides see a reset. */
  cut(): void {
    for (const socket of [...this.#pairs].flat()) reset(socket);
  }

  /** Nothing passes until `resume`. */
  stop(): void {
    this.#isStopped = true;
    for (const socket of [...this.#pairs].flat()) socket.pause();
  }

  resume(): void {
    this.#isStopped = false;
    for (const socket of [...this.#pairs].flat()) socket.resume();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }

  #join(near: Socket, far: Socket): void {
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    for (const [from, to] of [pair, [far, near] as const]) {
      from.on("data", (bytes) => {
        this.activity++;
        if (this.#isByteByByte) for (const byte of bytes) to.write(Uint8Array.of(byte));
        else if (!to.write(bytes)) from.pause();
      });
      to.on("drain", () => {
        if (!this.#isStopped) from.resume();
      });
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.activity++;
        to.destroy();
        this.#pairs.delete(pair);
      });
      if (this.#isStopped) from.pause();
    }
  }
}

/** A socket whose end was sent cannot be reset any more: Node then forgets to close it, and the process never ends. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/**
 * Until nothing has passed for several rounds: both ends are in this process, so a round is a turn of the event loop and a trip over loopback. On a
 * busy machine the system delivers loopback's bytes late; what was sent before the trip began has been delivered when it ends.
 */
export async function quiet(activity: () => number): Promise<void> {
  const [near, far] = await loopback();
  let last = activity();
  for (let rounds = 0; rounds < 8; rounds++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    near.write("?");
    await once(near, "data");
    for (let turns = 0; turns < 8; turns++) await new Promise((resolve) => setImmediate(resolve));
    if (activity() === last) continue;
    last = activity();
    rounds = 0;
  }
  near.destroy();
  far.destroy();
}

/** A connection whose far end sends back what it gets. */
async function loopback(): Promise<readonly [near: Socket, far: Socket]> {
  const server = createServer({ noDelay: true }, (socket) => void socket.pipe(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it has no address");
  const near = connect({ port: address.port, host: "127.0.0.1", noDelay: true });
  const [far] = await Promise.all([accepted(server), once(near, "connect")]);
  server.close();
  return [near, far];
}

async function accepted(server: Server): Promise<Socket> {
  return new Promise((resolve) => server.once("connection", resolve));
}
