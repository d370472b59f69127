/**
 * What a connection shows of the responses that it carried, after their last byte was handed to the system.
 *
 * A response that left may still be lost: in the system's buffers, on the way, unread at the peer. The connection tells some of it. A peer
 * that speaks again behind the response has got it. One that ends the connection in good order has got it as well, or never looked:
 * both look the same. A reset, or an end by timeout, means that the response may be lost.
 *
 * HTTP/1.1 is confirmed by the next request. On HTTP/2 requests do not wait for each other's responses, so the next one is the occasion to
 * ping. Nothing is sent right behind a response: a client that hangs up without having read that would reset the connection.
 */
import type { Socket } from "node:net";
import type { Arrival } from "./exchange.ts";

type Tell = (arrival: Arrival) => void;

const RESETS: ReadonlySet<string> = new Set([
  "ECONNRESET",
  "ECONNABORTED",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
]);
/** The peer had hung up in good order, and then refused what was written. In HTTP/1.1 that is a response, in HTTP/2 it may be a ping. */
const REFUSED = "EPIPE";

export class ConnectionFate {
  /** Responses of which nothing was heard yet. */
  readonly #waiting: Tell[] = [];
  #isBroken = false;
  #end: Arrival | undefined;

  constructor(socket: Socket, httpVersion: 1 | 2) {
    socket.on("error", (error) => {
      const code = "code" in error ? String(error.code) : "";
      if (RESETS.has(code) || (code === REFUSED && httpVersion === 1)) this.broke();
    });
    socket.on("close", () => {
      this.#end = this.#isBroken ? "lost" : "closed";
      for (const tell of this.#waiting.splice(0)) tell(this.#end);
    });
  }

  /** A response has left whole; `tell` is called at most once. */
  carried(tell: Tell): void {
    if (this.#end === undefined) this.#waiting.push(tell);
    else tell(this.#end);
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Returns what to call when the peer has sent something that it sends only behind the responses so far. */
  mark(): () => void {
    const before = [...this.#waiting];
    return () => {
      for (const tell of before) {
        const at = this.#waiting.indexOf(tell);
        if (at === -1) continue;
        this.#waiting.splice(at, 1);
        tell("confirmed");
      }
    };
  }

  /** The connection is given up: its end will not be one in good order. */
  broke(): void {
    this.#isBroken = true;
  }
}

/**
 * The socket ends in two steps where `node:http` would drop it at once: it says that nothing more comes, and waits for the peer to do
 * the same. Until then a reset is heard; dropped, the socket would hear nothing of a response that was refused.
 */
export function endInTwoSteps(socket: Socket, waitMs: number): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), waitMs);
    timer.unref();
    socket.once("close", () => clearTimeout(timer));
  };
}
