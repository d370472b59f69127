/**
 * An exchange that adds the headers every answer has, and knows what became of it.
 *
 * It stands between a handler and the network, so that no handler can forget a header or a line of the log. On the hot path it
 * adds one addition to a write.
 */
import type { Exchange, ExchangeListener, ResponseHeaders } from "../../transport/node/exchange.ts";
import type { HttpCounters } from "./http-counters.ts";

export class ObservedExchange implements Exchange {
  readonly httpVersion: 1 | 2;
  readonly isSecure: boolean;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly remoteAddress: string;
  /** Of the response; 0 while there is none. */
  status = 0;
  bytesIn = 0;
  bytesOut = 0;
  readonly #exchange: Exchange;
  readonly #headers: ResponseHeaders;
  readonly #counters: HttpCounters;
  #onOver: (() => void) | undefined;
  #isListening = false;

  /** `onOver` is called once, when the response is complete or the connection gone. */
  constructor(exchange: Exchange, headers: ResponseHeaders, counters: HttpCounters, onOver: () => void) {
    this.httpVersion = exchange.httpVersion;
    this.isSecure = exchange.isSecure;
    this.method = exchange.method;
    this.path = exchange.path;
    this.query = exchange.query;
    this.host = exchange.host;
    this.remoteAddress = exchange.remoteAddress;
    this.#exchange = exchange;
    this.#headers = headers;
    this.#counters = counters;
    this.#onOver = onOver;
  }

  get isListening(): boolean {
    return this.#isListening;
  }

  get hasResponded(): boolean {
    return this.#exchange.hasResponded;
  }

  header(name: string): string | undefined {
    return this.#exchange.header(name);
  }

  listen(listener: ExchangeListener): void {
    this.#isListening = true;
    const observed: ExchangeListener = {
      received: (piece) => {
        this.bytesIn += piece.length;
        this.#counters.bytesIn += piece.length;
        listener.received(piece);
      },
      ended: () => listener.ended(),
      drained: () => listener.drained(),
      closed: (isWhole) => {
        listener.closed(isWhole);
        this.#over();
      },
    };
    if (listener.arrived !== undefined) observed.arrived = (arrival) => listener.arrived?.(arrival);
    this.#exchange.listen(observed);
  }

  pause(): void {
    this.#exchange.pause();
  }

  resume(): void {
    this.#exchange.resume();
  }

  respond(status: number, headers: ResponseHeaders): void {
    if (this.status === 0) this.status = status;
    this.#exchange.respond(status, { ...this.#headers, ...headers });
  }

  write(bytes: Uint8Array): number {
    this.#count(bytes.length);
    return this.#exchange.write(bytes);
  }

  end(last?: Uint8Array): void {
    if (last !== undefined) this.#count(last.length);
    this.#exchange.end(last);
  }

  destroy(): void {
    this.#exchange.destroy();
  }

  #count(bytes: number): void {
    this.bytesOut += bytes;
    this.#counters.bytesOut += bytes;
  }

  #over(): void {
    const onOver = this.#onOver;
    this.#onOver = undefined;
    onOver?.();
  }
}
