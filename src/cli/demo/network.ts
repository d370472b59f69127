/**
 * The network between client and server, as a TCP proxy that can be cut and can go silent.
 *
 * Cut: connections break and new ones are refused. Silent: nothing breaks, and nothing arrives any more, which
 * is what a lost radio link looks like.
 */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

type State = "up" | "cut" | "silent";

export class Network {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Open while the network went silent. */
  readonly #deaf = new WeakSet<Socket>();
  #state: State = "up";
  /** Where the server listens at present. */
  targetPort = 0;

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => this.#accept(socket));
  }

  static async open(): Promise<Network> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Network(server);
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  cut(): void {
    this.#state = "cut";
    this.#breakAll();
  }

  silence(): void {
    this.#state = "silent";
    for (const socket of this.#sockets) this.#deaf.add(socket);
  }

  /** Whoever was cut off by silence finds that nobody knows his connection any more. */
  mend(): void {
    if (this.#state === "silent") this.#breakAll();
    this.#state = "up";
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  #breakAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client: Socket): void {
    if (this.#state === "cut") {
      client.destroy();
      return;
    }
    this.#keep(client);
    if (this.#state === "silent") {
      this.#deaf.add(client);
      // Read and lost, or its end would never be noticed.
      client.resume();
      return;
    }
    const server = this.#keep(connect(this.targetPort, "127.0.0.1"));
    this.#carry(client, server);
    this.#carry(server, client);
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    // A broken connection is what this is for; its end is told by "close".
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    return socket;
  }

  #carry(from: Socket, to: Socket): void {
    from.on("data", (bytes) => {
      if (this.#deaf.has(from) || to.write(bytes)) return;
      from.pause();
      to.once("drain", () => from.resume());
    });
    from.on("close", () => {
      if (!this.#deaf.has(from)) to.destroy();
    });
  }
}
