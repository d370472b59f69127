/**
 * An exchange over HTTP/2: one stream of `node:http2`'s core API.
 *
 * Not its compatibility API, which puts two more objects and their events between an event of ours and
 * the socket.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Exchange, ExchangeListener, ResponseHeaders } from "./exchange.ts";

export class Http2Exchange implements Exchange {
  readonly httpVersion = 2;
  readonly isSecure: boolean;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly remoteAddress: string;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #lastBytesTimeoutMs: number;
  #leaving: NodeJS.Timeout | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: Peer) {
    const target = text(headers[":path"]) ?? "/";
    const mark = target.indexOf("?");
    this.isSecure = peer.isSecure;
    this.remoteAddress = peer.remoteAddress;
    this.#lastBytesTimeoutMs = peer.lastBytesTimeoutMs;
    this.method = text(headers[":method"]) ?? "GET";
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = mark === -1 ? "" : target.slice(mark + 1);
    this.host = text(headers[":authority"]) ?? text(headers["host"]) ?? "";
    this.#stream = stream;
    this.#headers = headers;
    // A broken stream is told by `close`; without this the error itself would end the process.
    stream.on("error", () => undefined);
    // A peer that resets with "no error" while its body is not being read would otherwise be waited for.
    stream.on("aborted", () => queueMicrotask(() => stream.destroy()));
  }

  header(name: string): string | undefined {
    return text(this.#headers[name]);
  }

  listen(listener: ExchangeListener): void {
    const stream = this.#stream;
    stream.on("data", (piece: Uint8Array) => listener.received(piece));
    stream.on("end", () => listener.ended());
    // An empty body ends by itself, before anybody has listened: that end is not told a second time.
    if (stream.readableEnded) queueMicrotask(() => listener.ended());
    stream.on("drain", () => {
      if (!stream.destroyed) listener.drained();
    });
    let isClosed = false;
    const close = (): void => {
      if (isClosed) return;
      isClosed = true;
      clearTimeout(this.#leaving);
      listener.closed(isSent(stream));
    };
    stream.on("close", close);
    // A listener that comes too late would otherwise wait for ever.
    if (stream.destroyed) queueMicrotask(close);
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  get hasResponded(): boolean {
    return this.#stream.headersSent;
  }

  respond(status: number, headers: ResponseHeaders): void {
    // A stream that was reset is `closed` some time before it is destroyed, and would throw.
    if (this.#stream.headersSent || this.#stream.destroyed || this.#stream.closed) return;
    this.#stream.respond({ ...headers, ":status": status });
  }

  write(bytes: Uint8Array): number {
    const stream = this.#stream;
    if (stream.writableEnded || stream.destroyed) return 0;
    stream.write(bytes);
    return stream.writableNeedDrain ? stream.writableLength : 0;
  }

  end(last?: Uint8Array): void {
    const stream = this.#stream;
    if (stream.writableEnded || stream.destroyed) return;
    if (last === undefined) stream.end();
    else stream.end(last);
    this.#leaving = setTimeout(() => this.destroy(), this.#lastBytesTimeoutMs).unref();
  }

  destroy(): void {
    // After a complete response this says "I need no more of your request".
    if (isSent(this.#stream)) this.#stream.close(constants.NGHTTP2_NO_ERROR);
    // Before it "this is broken". To close with an error code would not do: Node then ends the response first, and the peer takes it for complete.
    else this.#stream.destroy(new HoldfastError("connection_lost", "the response was broken off"));
  }
}

/** The other end of the connection, read once for all its streams. */
export interface Peer {
  readonly isSecure: boolean;
  readonly remoteAddress: string;
  readonly lastBytesTimeoutMs: number;
}

/** A stream that ends well may be closed before Node has said that its writing is finished. */
function isSent(stream: ServerHttp2Stream): boolean {
  if (stream.writableFinished) return true;
  const hasEndedWell = stream.writableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR;
  return hasEndedWell && stream.writableLength === 0;
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
