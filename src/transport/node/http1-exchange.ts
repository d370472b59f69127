/**
 * An exchange over HTTP/1.1: `node:http`.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ConnectionFate } from "./connection-fate.ts";
import type { Exchange, ExchangeListener, ResponseHeaders } from "./exchange.ts";

export class Http1Exchange implements Exchange {
  readonly httpVersion = 1;
  readonly isSecure: boolean;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly remoteAddress: string;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #isLast: () => boolean;
  readonly #lastBytesTimeoutMs: number;
  readonly #fate: ConnectionFate;
  #leaving: NodeJS.Timeout | undefined;
  #isWhole = false;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    { lastBytesTimeoutMs, isLast, fate }: Http1Line,
  ) {
    const target = request.url ?? "/";
    const mark = target.indexOf("?");
    this.isSecure = "encrypted" in request.socket;
    this.method = request.method ?? "GET";
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = mark === -1 ? "" : target.slice(mark + 1);
    this.host = onlyHost(request.rawHeaders);
    this.remoteAddress = request.socket.remoteAddress ?? "";
    this.#request = request;
    this.#response = response;
    this.#isLast = isLast;
    this.#lastBytesTimeoutMs = lastBytesTimeoutMs;
    this.#fate = fate;
    // A broken connection is reported by `close`; without these the error itself would end the process.
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    response.on("finish", () => {
      this.#isWhole = true;
    });
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  listen(listener: ExchangeListener): void {
    this.#request.on("data", (piece: Uint8Array) => listener.received(piece));
    this.#request.on("end", () => listener.ended());
    this.#response.on("drain", () => {
      if (!this.#response.closed) listener.drained();
    });
    let isClosed = false;
    const close = (): void => {
      if (isClosed) return;
      isClosed = true;
      clearTimeout(this.#leaving);
      listener.closed(this.#isWhole);
      if (this.#isWhole && listener.arrived !== undefined)
        this.#fate.carried((arrival) => listener.arrived?.(arrival));
    };
    this.#response.on("close", close);
    // A listener that comes too late would otherwise wait for ever.
    if (this.#response.closed) queueMicrotask(close);
  }

  pause(): void {
    this.#request.pause();
  }

  resume(): void {
    this.#request.resume();
  }

  get hasResponded(): boolean {
    return this.#response.headersSent;
  }

  respond(status: number, headers: ResponseHeaders): void {
    if (this.#response.headersSent || this.#response.destroyed) return;
    // All at once: headers that are set one by one are kept, and looked up again for the head.
    this.#response.writeHead(status, this.#isLast() ? { ...headers, connection: "close" } : headers);
    // Otherwise the head would wait for the first piece of the body, which may be an event of tomorrow.
    this.#response.flushHeaders();
  }

  write(bytes: Uint8Array): number {
    const response = this.#response;
    if (response.writableEnded || response.destroyed) return 0;
    response.write(bytes);
    return response.writableNeedDrain ? response.writableLength : 0;
  }

  end(last?: Uint8Array): void {
    const response = this.#response;
    if (response.writableEnded || response.destroyed) return;
    if (last === undefined) response.end();
    else response.end(last);
    this.#leaving = setTimeout(() => this.destroy(), this.#lastBytesTimeoutMs).unref();
  }

  destroy(): void {
    this.#response.destroy();
  }
}

/** What carries the exchange. */
interface Http1Line {
  readonly lastBytesTimeoutMs: number;
  /** Asked when the head of the response leaves: a port that is closing keeps no connection alive. */
  readonly isLast: () => boolean;
  readonly fate: ConnectionFate;
}

/** Empty when there is none, or more than one: then it is unclear which is meant, and proxies disagree. */
function onlyHost(rawHeaders: readonly string[]): string {
  let host: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== "host") continue;
    if (host !== undefined) return "";
    host = rawHeaders[at + 1];
  }
  return host ?? "";
}
