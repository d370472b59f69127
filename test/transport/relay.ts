/**
 * A piece of network between a client and a server: passes bytes on, and can be cut, stopped and watched.
 *
 * Real sockets on both sides, so what happens to a connection through it is what happens to one over a network.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { keptPort } from "../kept-port.ts";

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
    // Never twice in a process: a `fetch` still has its connections to the server that was there before, and they die late.
    relay.#server.listen(await keptPort(), "127.0.0.1");
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

/** Until nothing has passed for several rounds of the event loop: both ends are in this process. */
export async function quiet(activity: () => number): Promise<void> {
  let last = activity();
  for (let rounds = 0; rounds < 8; rounds++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    for (let turns = 0; turns < 8; turns++) await new Promise((resolve) => setImmediate(resolve));
    if (activity() === last) continue;
    last = activity();
    rounds = 0;
  }
}
