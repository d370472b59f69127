/**
 * An exchange over `Request` and `Response`: for servers that hand requests over as the fetch standard has them.
 *
 * The response's body is pulled: a piece leaves when its reader asks for it, so what waits here is what the peer has not taken, and the response is whole
 * when its reader has asked for what follows the last piece.
 *
 * Invariant: a response that was not ended breaks for its reader; it never looks complete.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Exchange, ExchangeListener, ResponseHeaders } from "./exchange.ts";

/** Responses that may not have a body. */
const EMPTY: ReadonlySet<number> = new Set([204, 205, 304]);

export class FetchExchange implements Exchange {
  readonly httpVersion = 1;
  readonly isSecure: boolean;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly remoteAddress: string;
  /** Called once, behind the listener's `closed`. */
  onClosed: () => void = () => undefined;
  readonly #request: Request;
  readonly #response = Promise.withResolvers<Response>();
  readonly #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  #listener: ExchangeListener | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  /** Set while the reader waits for a piece. */
  #pulled: (() => void) | undefined;
  #resumed: (() => void) | undefined;
  #isPaused = false;
  /** Something was written that the reader did not wait for. */
  #isBehind = false;
  #hasResponded = false;
  #hasEnded = false;
  #isClosed = false;
  #isWhole = false;

  /** `path` is the request's, without what it is mounted under. */
  constructor(request: Request, path: string, remoteAddress: string) {
    const { protocol, search, host } = new URL(request.url);
    this.isSecure = protocol === "https:";
    this.method = request.method;
    this.path = path;
    this.query = search.slice(1);
    this.host = request.headers.get("host") ?? host;
    this.remoteAddress = remoteAddress;
    this.#request = request;
    if (request.signal.aborted) this.#giveUp();
    else request.signal.addEventListener("abort", () => this.#giveUp(), { once: true });
  }

  /** Rejects when the exchange is hung up on before it has a head. */
  get response(): Promise<Response> {
    return this.#response.promise;
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined;
  }

  listen(listener: ExchangeListener): void {
    this.#listener = listener;
    if (this.#isClosed) queueMicrotask(() => this.#tellClosed());
    else void this.#read(listener);
  }

  async #read(listener: ExchangeListener): Promise<void> {
    // No call comes before `listen` has returned.
    await Promise.resolve();
    try {
      const reader = this.#request.body?.getReader();
      for (;;) {
        const read = await reader?.read();
        const value: unknown = read?.value;
        if (this.#isClosed) {
          await reader?.cancel();
          return;
        }
        if (!(value instanceof Uint8Array)) break;
        listener.received(value);
        if (this.#isPaused) await new Promise<void>((resolve) => (this.#resumed = resolve));
      }
      listener.ended();
    } catch {
      // The peer hung up in its request.
      this.destroy();
    }
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#resumed?.();
  }

  get hasResponded(): boolean {
    return this.#hasResponded;
  }

  respond(status: number, headers: ResponseHeaders): void {
    if (this.#hasResponded || this.#isClosed) return;
    this.#hasResponded = true;
    const sent = new Headers();
    for (const [name, value] of Object.entries(headers))
      for (const one of typeof value === "string" ? [value] : value) sent.append(name, one);
    const hasBody = this.method !== "HEAD" && !EMPTY.has(status);
    this.#response.resolve(new Response(hasBody ? this.#body() : null, { status, headers: sent }));
    if (!hasBody) this.#close(true);
  }

  #body(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#pull(),
        cancel: () => this.#close(false),
      },
      { highWaterMark: 0 },
    );
  }

  /** Resolves when a piece has left; until then the stream asks for no other. */
  async #pull(): Promise<void> {
    if (this.#unsent.length === 0 && !this.#hasEnded && !this.#isClosed)
      await new Promise<void>((resolve) => (this.#pulled = resolve));
    const piece = this.#unsent.shift();
    if (piece !== undefined) {
      this.#unsentBytes -= piece.length;
      this.#controller?.enqueue(piece);
      if (this.#unsentBytes === 0 && this.#isBehind && !this.#hasEnded) this.#drained();
    } else if (this.#hasEnded && !this.#isClosed) {
      this.#controller?.close();
      this.#close(true);
    }
  }

  write(bytes: Uint8Array): number {
    if (this.#hasEnded || this.#isClosed) return 0;
    this.#unsent.push(bytes);
    this.#unsentBytes += bytes.length;
    if (this.#pulled === undefined) this.#isBehind = true;
    this.#wake();
    return this.#isBehind ? this.#unsentBytes : 0;
  }

  #drained(): void {
    this.#isBehind = false;
    this.#listener?.drained();
  }

  end(last?: Uint8Array): void {
    if (this.#hasEnded || this.#isClosed) return;
    if (last !== undefined && last.length > 0) this.write(last);
    this.#hasEnded = true;
    this.#wake();
  }

  #wake(): void {
    this.#pulled?.();
    this.#pulled = undefined;
  }

  destroy(): void {
    if (this.#isClosed) return;
    const broken = new HoldfastError("connection_lost", "this response was broken off");
    if (this.#hasResponded) this.#controller?.error(broken);
    else this.#response.reject(broken);
    this.#close(false);
  }

  /** The peer is gone. The server around us may cancel the body by itself in this turn; an error is for one that reads on. */
  #giveUp(): void {
    this.#close(false);
    setImmediate(() =>
      this.#controller?.error(new HoldfastError("connection_lost", "the request was given up")),
    );
  }

  #tellClosed(): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.closed(this.#isWhole);
  }

  #close(isWhole: boolean): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isWhole = isWhole;
    this.#unsent.length = 0;
    this.#wake();
    this.#resumed?.();
    if (!this.#hasResponded)
      this.#response.reject(new HoldfastError("connection_lost", "the request was given up"));
    queueMicrotask(() => {
      this.#tellClosed();
      this.onClosed();
    });
  }
}
