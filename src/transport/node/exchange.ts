/**
 * One HTTP request and its response, whichever version of HTTP carries them.
 *
 * Handlers are written once, against this, and never see `node:http` or `node:http2`. It is made of calls
 * instead of Node streams or promises because it lies on the hot path: an event that goes out is one call
 * of `write`, and how much waits is a number that it returns.
 */
import { joinedBytes } from "../../protocol/bytes.ts";
import { HoldfastError } from "../../protocol/errors.ts";

/**
 * What the connection has shown of a response that left whole.
 *
 * - `confirmed`: the peer spoke again behind it: with its next request (HTTP/1.1), or with the answer to a ping (HTTP/2).
 * - `closed`: the peer ended the connection in good order. It does so whether or not its program has read the response.
 * - `lost`: the connection was reset, or timed out.
 */
export type Arrival = "confirmed" | "closed" | "lost";

/** What happens to an exchange. No call but `arrived` comes after `closed`, and none before `listen` has returned. */
export interface ExchangeListener {
  /** A piece of the request's body, of any size. It may be kept. */
  received(piece: Uint8Array): void;
  /** The request's body is complete. */
  ended(): void;
  /** What waited unsent is on its way; only called when something waited. */
  drained(): void;
  /**
   * Nothing more comes or goes: the response has left, or one side has hung up. `isWhole` when all of the response was handed
   * to the system: more than that is not known without the peer's word.
   */
  closed(isWhole: boolean): void;
  /** After `closed(true)`, at most once, and perhaps never: what the connection has shown since. */
  arrived?(arrival: Arrival): void;
}

/** Names in lower case. Several values of one name are several headers. */
export type ResponseHeaders = Readonly<Record<string, string | string[]>>;

export interface Exchange {
  readonly httpVersion: 1 | 2;
  /** By TLS. */
  readonly isSecure: boolean;
  readonly method: string;
  /** As it was sent, without the query: percent signs are not decoded. */
  readonly path: string;
  /** What follows the question mark; empty when there is none. */
  readonly query: string;
  /** The `Host` header or HTTP/2's `:authority`; empty when there is none. */
  readonly host: string;
  /** The peer's address; empty once it is gone. */
  readonly remoteAddress: string;
  /** Name in lower case. A header that came several times is joined by ", ". */
  header(name: string): string | undefined;
  /** Begins to read the body. Once; an exchange without a listener reads nothing. */
  listen(listener: ExchangeListener): void;
  /** No `received` until `resume`, apart from what is already in hand: the peer is slowed down. */
  pause(): void;
  resume(): void;
  /** The head of the response; once, before `write` and `end`. */
  respond(status: number, headers: ResponseHeaders): void;
  readonly hasResponded: boolean;
  /** In one piece. Returns how many bytes wait unsent; when it is not 0, `drained` follows. */
  write(bytes: Uint8Array): number;
  /** The response is complete. Calling it twice, or after `closed`, does nothing. */
  end(last?: Uint8Array): void;
  /** Hangs up. The other side sees a broken exchange, never a complete response. */
  destroy(): void;
}

export interface BodyLimits {
  readonly bytesMax: number;
  /** From the call to the last byte: a body that trickles in must not hold memory for ever. */
  readonly timeoutMs: number;
  /** Asked before each piece is kept; what it throws is why the body is not read on. */
  readonly take?: (byteCount: number) => void;
}

/**
 * The whole body of a small request. Rejects with `too_large` as soon as it is, with `connection_lost`
 * when the peer hangs up, and with `unavailable` when it is too slow; the caller answers or destroys.
 */
export function readBody(exchange: Exchange, limits: BodyLimits): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const pieces: Uint8Array[] = [];
  let byteCount = 0;
  let isOver = false;
  const timer = setTimeout(
    () => fail(new HoldfastError("unavailable", "the request's body came too slowly; send it again")),
    limits.timeoutMs,
  );

  function fail(error: unknown): void {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    pieces.length = 0;
    reject(error);
  }

  function keep(piece: Uint8Array): void {
    try {
      limits.take?.(piece.length);
      pieces.push(piece);
    } catch (cause) {
      fail(cause);
    }
  }

  if (declaredLength(exchange) > limits.bytesMax) fail(tooLarge(limits.bytesMax));
  exchange.listen({
    received(piece) {
      if (isOver) return;
      byteCount += piece.length;
      if (byteCount > limits.bytesMax) fail(tooLarge(limits.bytesMax));
      else keep(piece);
    },
    ended() {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      resolve(joinedBytes(pieces));
    },
    drained: () => undefined,
    closed: () => fail(new HoldfastError("connection_lost", "the client hung up before its request ended")),
  });
  return promise;
}

/** What the request says about its body; 0 when it says nothing. */
function declaredLength(exchange: Exchange): number {
  const declared = Number(exchange.header("content-length") ?? 0);
  return Number.isFinite(declared) ? declared : 0;
}

function tooLarge(bytesMax: number): HoldfastError {
  return new HoldfastError("too_large", `the request's body has more than ${bytesMax} bytes`);
}

/** A whole response at once. Does nothing when one has begun. */
export function respondWith(
  exchange: Exchange,
  status: number,
  headers: ResponseHeaders,
  body: Uint8Array | string,
): void {
  if (exchange.hasResponded) return;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  exchange.respond(status, { ...headers, "content-length": String(bytes.length) });
  exchange.end(bytes);
}
