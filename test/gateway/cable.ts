/**
 * The network between a client and the gateway: a port that stays while servers behind it come and go, and that can be cut,
 * also after so many bytes of a response.
 *
 * While nobody is behind it, connections are refused, or wait when it is told to hold them: then the test says what comes first.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

/** A place in what comes back, in bytes; undefined: not known yet. */
export type Place = (received: string) => number | undefined;

/** So many bytes behind the end of a text. */
export function behind(text: string, byteCount = 0): Place {
  return (received) => {
    const at = received.indexOf(text);
    return at === -1 ? undefined : at + text.length + byteCount;
  };
}

interface Watch {
  readonly place: Place;
  readonly isCut: boolean;
  readonly how: "end" | "reset";
  readonly done: () => void;
  received: string;
}

export class Cable {
  readonly port: number;
  #target = 0;
  #watch: Watch | undefined;
  #isHeld = false;
  readonly #waiting: Socket[] = [];
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
    this.letGo();
  }

  /** The connection that is answered next is cut when so many bytes have come back. */
  cutNextAfter(bytes: number): Promise<void> {
    return this.cutNextAt(() => bytes);
  }

  /** By FIN, or by a reset. */
  cutNextAt(place: Place, how: "end" | "reset" = "end"): Promise<void> {
    return this.#watchFor(place, true, how);
  }

  /** Until so much has come back. */
  hasCome(place: Place): Promise<void> {
    return this.#watchFor(place, false);
  }

  #watchFor(place: Place, isCut: boolean, how: "end" | "reset" = "end"): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#watch = { place, isCut, how, done: resolve, received: "" };
    return promise;
  }

  /** New connections wait until they are let go, or there is another target. */
  hold(): void {
    this.#isHeld = true;
  }

  letGo(): void {
    this.#isHeld = false;
    for (const socket of this.#waiting.splice(0)) this.#join(socket);
  }

  /** Cut, and nobody is reached until there is another target. */
  unplug(): void {
    this.#target = 0;
    this.cut();
  }

  cut(): void {
    for (const socket of [...this.#pairs, ...this.#waiting.splice(0)]) socket.destroy();
  }

  #join(near: Socket): void {
    if (this.#isHeld) {
      near.on("error", () => undefined);
      this.#waiting.push(near);
      return;
    }
    if (this.#target === 0 || near.destroyed) {
      near.destroy();
      return;
    }
    const far = connect(this.#target, "127.0.0.1");
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
      const how = this.#watch?.how;
      const left = this.#leftOf(bytes);
      if (left === undefined) {
        near.write(bytes);
        return;
      }
      // A client may have others open: none of them is a way around the cut.
      for (const socket of this.#pairs) if (socket !== near) socket.destroy();
      // What was sent before the cut still arrives.
      near.write(bytes.subarray(0, left), () => (how === "reset" ? near.resetAndDestroy() : near.destroy()));
    });
  }

  /** How much of it still gets through; undefined: all, and what follows. */
  #leftOf(bytes: Buffer): number | undefined {
    const watch = this.#watch;
    if (watch === undefined) return undefined;
    const before = watch.received.length;
    watch.received += bytes.toString("latin1");
    const at = watch.place(watch.received);
    if (at === undefined || at > watch.received.length) return undefined;
    this.#watch = undefined;
    watch.done();
    return watch.isCut ? Math.max(at - before, 0) : undefined;
  }
}
