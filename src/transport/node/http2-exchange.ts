/**
 * An exchange over HTTP/2: one stream of `node:http2`'s core API.
 *
 * Not its compatibility API, which puts two more objects and their events between an event of ours and
 * the socket.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ConnectionFate } from "./connection-fate.ts";
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
  readonly #peer: Peer;
  #leaving: NodeJS.Timeout | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: Peer) {
    const target = text(headers[":path"]) ?? "/";
    const mark = target.indexOf("?");
    this.isSecure = peer.isSecure;
    this.remoteAddress = peer.remoteAddress;
    this.#peer = peer;
    this.method = text(headers[":method"]) ?? "GET";
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = mark === -1 ? "" : target.slice(mark + 1);
    this.host = text(headers[":authority"]) ?? text(headers["host"]) ?? "";
    this.#stream = stream;
    this.#headers = headers;
    // A broken stream is reported by `close`; without this the error itself would end the process.
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
    // An empty body ends by itself, before there is a listener: that end is not emitted a second time.
    if (stream.readableEnded) queueMicrotask(() => listener.ended());
    stream.on("drain", () => {
      if (!stream.destroyed) listener.drained();
    });
    let isClosed = false;
    const close = (): void => {
      if (isClosed) return;
      isClosed = true;
      clearTimeout(this.#leaving);
      const isWhole = isSent(stream, this.#peer);
      listener.closed(isWhole);
      if (!isWhole || listener.arrived === undefined) return;
      if (stream.rstCode === constants.NGHTTP2_NO_ERROR)
        this.#peer.fate.carried((arrival) => listener.arrived?.(arrival));
      else listener.arrived("lost");
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
    this.#leaving = setTimeout(() => this.destroy(), this.#peer.lastBytesTimeoutMs).unref();
  }

  destroy(): void {
    // After a complete response this says "I need no more of your request".
    if (isSent(this.#stream, this.#peer)) this.#stream.close(constants.NGHTTP2_NO_ERROR);
    // Before it "this is broken". To close with an error code would not do: Node then ends the response first, and the peer takes it for complete.
    else this.#stream.destroy(new HoldfastError("connection_lost", "the response was broken off"));
  }
}

/** The other end of the connection, read once for all its streams. */
export interface Peer {
  readonly isSecure: boolean;
  readonly remoteAddress: string;
  readonly lastBytesTimeoutMs: number;
  readonly fate: ConnectionFate;
  /** Whether the connection has ended. */
  readonly isGone: () => boolean;
}

/**
 * A stream that ends well may be closed before Node has said that its writing is finished: when other frames of the connection are being
 * written. It has ended well when its own end closed it, and not the end of the connection or the peer's wish.
 */
function isSent(stream: ServerHttp2Stream, { isGone }: Pick<Peer, "isGone">): boolean {
  if (stream.writableFinished) return true;
  const hasEnded = stream.writableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR;
  return hasEnded && (stream.writableLength === 0 || (stream.closed && !stream.aborted && !isGone()));
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
