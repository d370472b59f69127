/**
 * One request and its response, as promises: the body, the end of the client's patience, writes at the client's pace.
 *
 * At most one thing is waited for at a time, and whatever ends the call (a hang-up, a client that takes nothing, the server's end) ends
 * that wait. Nothing is written while the last piece waits, so a response holds one piece in memory, whatever its length (F2).
 */
import type { Arrival, Exchange, ResponseHeaders } from "../../transport/node/exchange.ts";
import { GatewayError } from "../openai/index.ts";

/** How the pieces of a body are taken. */
interface BodyReader {
  received(piece: Uint8Array): void;
  ended(): void;
}

/** Why a call ended before its response did. */
type CallEnd = "hung_up" | "shut_down";

export class CallEnded extends Error {
  readonly why: CallEnd;

  constructor(why: CallEnd) {
    super(why === "hung_up" ? "the client hung up" : "the server is shutting down");
    this.why = why;
  }
}

/** Made once: every call ends so, and a stack would cost more than the end. */
const HUNG_UP = new CallEnded("hung_up");
const SHUT_DOWN = new CallEnded("shut_down");

const DISCARD_BYTES_MAX = 1024 * 1024;

export class HttpCall {
  readonly exchange: Exchange;
  readonly #stalledMs: number;
  readonly #ended = new AbortController();
  #reader: BodyReader | undefined;
  #isListening = false;
  #end: CallEnded | undefined;
  #interrupt: ((reason: CallEnded) => void) | undefined;
  #drained: (() => void) | undefined;
  #onOver: ((isWhole: boolean) => void)[] = [];
  #onArrived: ((arrival: Arrival) => void)[] = [];
  #isOver = false;
  #isWhole = false;

  /** A client that takes nothing for `stalledMs` is cut. */
  constructor(exchange: Exchange, stalledMs: number) {
    this.exchange = exchange;
    this.#stalledMs = stalledMs;
  }

  /** Aborted when the client is gone or has to go. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get isBlocked(): boolean {
    return this.#drained !== undefined;
  }

  /** Called once, when nothing more comes or goes; whole: all of the response was handed to the system. */
  onOver(listener: (isWhole: boolean) => void): void {
    if (this.#isOver) listener(this.#isWhole);
    else this.#onOver.push(listener);
  }

  /** Called at most once, after a whole response: what the connection has shown since. */
  onArrived(listener: (arrival: Arrival) => void): void {
    this.#onArrived.push(listener);
  }

  /** The server's wish: whatever is waited for rejects. The response can still be given. */
  shutDown(): void {
    this.#stop(SHUT_DOWN);
  }

  /** The whole body; `keep` is asked before each piece is kept and may throw. */
  readBody(bytesMax: number, timeoutMs: number, keep: (byteCount: number) => void): Promise<Uint8Array> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const pieces: Uint8Array[] = [];
    let byteCount = 0;
    const timer = setTimeout(() => reject(tooSlow()), timeoutMs);
    const declared = Number(this.exchange.header("content-length") ?? 0);
    if (declared > bytesMax) reject(tooLarge(bytesMax));
    this.#listen({
      received: (piece) => {
        byteCount += piece.length;
        if (byteCount > bytesMax) {
          reject(tooLarge(bytesMax));
          return;
        }
        try {
          keep(piece.length);
          pieces.push(piece);
        } catch (cause) {
          reject(cause);
        }
      },
      ended: () => resolve(Buffer.concat(pieces, byteCount)),
    });
    return this.wait(promise).finally(() => {
      clearTimeout(timer);
      this.#reader = undefined;
    });
  }

  /** The body as it comes; the reader may pause the exchange. */
  takeBody(reader: BodyReader): void {
    this.#listen(reader);
  }

  /** What the promise says, or `CallEnded` as soon as the call ends. One at a time. */
  wait<Value>(promise: Promise<Value>): Promise<Value> {
    if (this.#end !== undefined) {
      promise.catch(() => undefined);
      return Promise.reject(this.#end);
    }
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      promise.then(resolve, reject);
    });
  }

  /** A response at once, however far the request has come. */
  respond(status: number, headers: ResponseHeaders, body: string): void {
    const bytes = Buffer.from(body);
    this.exchange.respond(status, { ...headers, "content-length": String(bytes.length) });
    this.finish(this.exchange.method === "HEAD" ? undefined : bytes);
  }

  /** The head of a response whose body comes in pieces. */
  begin(status: number, headers: ResponseHeaders): void {
    this.#listen(undefined);
    this.exchange.respond(status, headers);
  }

  /** Undefined when more may be written at once; else a promise of when. */
  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.exchange.write(bytes) === 0) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => this.exchange.destroy(), this.#stalledMs);
    this.#drained = resolve;
    return this.wait(promise).finally(() => {
      clearTimeout(timer);
      this.#drained = undefined;
    });
  }

  /** The response is complete. The rest of the request is read away, within bounds, so that the client gets to read it. */
  finish(last?: Uint8Array): void {
    this.#listen(undefined);
    this.exchange.end(last);
  }

  /** Hangs up: the client sees a broken response. */
  destroy(): void {
    this.#listen(undefined);
    this.exchange.destroy();
  }

  #listen(reader: BodyReader | undefined): void {
    this.#reader = reader;
    if (this.#isListening) return;
    this.#isListening = true;
    let discarded = 0;
    this.exchange.listen({
      received: (piece) => {
        if (this.#reader !== undefined) {
          this.#reader.received(piece);
          return;
        }
        discarded += piece.length;
        if (discarded > DISCARD_BYTES_MAX) this.exchange.destroy();
      },
      ended: () => this.#reader?.ended(),
      drained: () => this.#drained?.(),
      closed: (isWhole) => this.#closed(isWhole),
      arrived: (arrival) => {
        for (const listener of this.#onArrived.splice(0)) listener(arrival);
      },
    });
  }

  #closed(isWhole: boolean): void {
    this.#isOver = true;
    this.#isWhole = isWhole;
    this.#stop(HUNG_UP);
    for (const listener of this.#onOver.splice(0)) listener(isWhole);
  }

  #stop(end: CallEnded): void {
    // A shutdown first and a hang-up then: the client has hung up.
    this.#end = end;
    this.#interrupt?.(end);
    this.#ended.abort(end);
  }
}

export function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError({
    status: 413,
    type: "invalid_request_error",
    code: "request_too_large",
    message: `The request's body has more than ${bytesMax} bytes. Send less.`,
  });
}

export function tooSlow(): GatewayError {
  return new GatewayError({
    status: 400,
    type: "invalid_request_error",
    code: "request_timeout",
    message: "The request's body came too slowly. Send it again.",
  });
}
