/**
 * Flow control for the saturating rows: the load tells the server's process how many events have
 * arrived, and the server's process keeps a bounded number under way.
 *
 * Without it a server that writes faster than the load reads would be measured by how much it can
 * queue. The same rule holds for every variant, so none gains by it. One plain TCP connection, a
 * few messages a second.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { once } from "node:events";

const TOTAL_BYTES = 8;

/** Calls `onTotal` with how many events have arrived in all. */
export async function listenForCredit(onTotal: (received: number) => void): Promise<{ port: number }> {
  const server = createServer({ noDelay: true }, (socket) => {
    let rest = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      const whole = rest.length - (rest.length % TOTAL_BYTES);
      // Totals only grow: the last one says all.
      if (whole > 0) onTotal(rest.readDoubleBE(whole - TOTAL_BYTES));
      rest = rest.subarray(whole);
    });
  });
  return { port: await listening(server) };
}

export class CreditSender {
  readonly #socket: Socket;
  readonly #every: number;
  #told = 0;

  static async connect(port: number, every: number): Promise<CreditSender> {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.on("error", () => undefined);
    await once(socket, "connect");
    return new CreditSender(socket, every);
  }

  private constructor(socket: Socket, every: number) {
    this.#socket = socket;
    this.#every = every;
  }

  /** Tells it when enough has come since the last time. */
  received(total: number): void {
    if (total - this.#told < this.#every) return;
    this.#told = total;
    const message = Buffer.allocUnsafe(TOTAL_BYTES);
    message.writeDoubleBE(total);
    this.#socket.write(message);
  }

  close(): void {
    this.#socket.destroy();
  }
}

export async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server has a port");
  return address.port;
}
