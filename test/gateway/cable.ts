/**
 * The network between a client and the gateway: a port that stays while servers behind it come and go, and that can be cut,
 * also after so many bytes of a response.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

export class Cable {
  readonly port: number;
  #target = 0;
  #cutAfter: number | undefined;
  readonly #pairs: Set<Socket>;

  private constructor(port: number, pairs: Set<Socket>) {
    this.port = port;
    this.#pairs = pairs;
  }

  static async lay(t: TestContext): Promise<Cable> {
    const pairs = new Set<Socket>();
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const cable = new Cable(port, pairs);
    server.on("connection", (socket) => cable.#join(socket));
    t.after(async () => {
      cable.cut();
      server.close();
      await once(server, "close");
    });
    return cable;
  }

  /** Where connections lead from now on. */
  set target(port: number) {
    this.#target = port;
  }

  /** The next connection is cut when so many bytes have come back. */
  cutNextAfter(bytes: number): void {
    this.#cutAfter = bytes;
  }

  /** Cut, and nobody is reached until there is another target. */
  unplug(): void {
    this.#target = 0;
    this.cut();
  }

  cut(): void {
    for (const socket of this.#pairs) socket.destroy();
  }

  #join(near: Socket): void {
    if (this.#target === 0) {
      near.destroy();
      return;
    }
    const far = connect(this.#target, "127.0.0.1");
    let left = this.#cutAfter ?? Infinity;
    this.#cutAfter = undefined;
    for (const [one, other] of [[near, far] as const, [far, near] as const]) {
      this.#pairs.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        this.#pairs.delete(one);
        other.destroy();
      });
      one.on("end", () => other.end());
    }
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes: Buffer) => {
      if (bytes.length < left) {
        left -= bytes.length;
        near.write(bytes);
        return;
      }
      // What was sent before the cut still arrives.
      near.write(bytes.subarray(0, left), () => near.destroy());
      far.destroy();
    });
  }
}
