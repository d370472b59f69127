/**
 * One call that is made of messages, as something to read from and write to at one's own pace.
 *
 * Nothing is read from the network before it is asked for, beyond what is in hand, and nothing is written while the last piece
 * waits: so a transfer holds one message each way, whatever its length (F2). A peer that neither sends nor takes anything is
 * given up.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { endEnvelope, EnvelopeParser } from "../../transport/connect/envelopes.ts";
import { endOfStreamJson } from "../../transport/connect/errors.ts";
import type { Exchange } from "../../transport/node/exchange.ts";

interface TransferOptions {
  readonly exchange: Exchange;
  /** Of the response: Connect's, for calls with streams. */
  readonly contentType: string;
  readonly messageBytesMax: number;
  readonly stallMs: number;
  readonly totalMs: number;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: HoldfastError) => void;
}

/** After an answer that came early so much more of the request is read, for clients that only then look at the answer. */
const DISCARD_BYTES_MAX = 1024 * 1024;

export class Transfer {
  readonly #exchange: Exchange;
  readonly #options: TransferOptions;
  readonly #parser: EnvelopeParser;
  readonly #untilMs: number;
  #pieces: Uint8Array[] = [];
  #hasRequestEnded = false;
  #failure: HoldfastError | undefined;
  #waiter: Waiter | undefined;
  #isPaused = false;
  #isFull = false;
  #discardLeft: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: TransferOptions) {
    this.#exchange = options.exchange;
    this.#options = options;
    this.#parser = new EnvelopeParser(options.messageBytesMax);
    this.#untilMs = performance.now() + options.totalMs;
    this.#exchange.listen({
      received: (piece) => this.#received(piece),
      ended: () => {
        this.#hasRequestEnded = true;
        this.#wake();
      },
      drained: () => {
        this.#isFull = false;
        this.#wake();
      },
      closed: () => {
        clearTimeout(this.#timer);
        this.#fail(new HoldfastError("connection_lost", "the client hung up"));
      },
    });
  }

  /** The next message; undefined after the last. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const envelope = this.#parser.next();
      if (envelope !== undefined) {
        if (envelope.isEnd) throw new HoldfastError("invalid_frame", "only a response has an end envelope");
        return envelope.message;
      }
      const piece = this.#pieces.shift();
      if (piece !== undefined) {
        this.#parser.push(piece);
      } else if (this.#hasRequestEnded) {
        if (this.#parser.isBetween) return undefined;
        throw new HoldfastError("invalid_frame", "the request ends within a message");
      } else {
        this.#resume();
        await this.#wait();
      }
    }
  }

  /** Resolves when more may be written. */
  async write(bytes: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#respond();
    this.#isFull = this.#exchange.write(bytes) > 0;
    while (this.#isFull) await this.#wait();
  }

  /** The last envelope, and the end. What is still coming is not wanted. */
  finish(error?: HoldfastError): void {
    if (this.#failure?.code === "connection_lost") return;
    this.#respond();
    this.#exchange.end(endEnvelope(Buffer.from(endOfStreamJson(error))));
    this.#pieces = [];
    this.#discardLeft = DISCARD_BYTES_MAX;
    this.#timer = setTimeout(() => this.#exchange.destroy(), this.#options.stallMs);
    this.#resume();
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#exchange.resume();
  }

  #respond(): void {
    if (this.#exchange.hasResponded) return;
    this.#exchange.respond(200, { "content-type": this.#options.contentType });
  }

  #received(piece: Uint8Array): void {
    if (this.#discardLeft === undefined) {
      this.#pieces.push(piece);
      // Only here, within the call that brings a piece: an HTTP/2 stream of Node that is paused while it waits for one
      // does not go on when it is resumed.
      this.#isPaused = true;
      this.#exchange.pause();
      this.#wake();
      return;
    }
    this.#discardLeft -= piece.length;
    if (this.#discardLeft < 0) this.#exchange.destroy();
  }

  /** Until something has happened; not for longer than a peer may take. */
  #wait(): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiter = { resolve, reject };
    const leftMs = Math.min(this.#options.stallMs, this.#untilMs - performance.now());
    this.#timer = setTimeout(
      () => this.#fail(new HoldfastError("unavailable", "this transfer is too slow; try again")),
      Math.max(0, leftMs),
    );
    return promise;
  }

  #wake(): void {
    const waiter = this.#waiter;
    if (waiter === undefined) return;
    this.#waiter = undefined;
    clearTimeout(this.#timer);
    waiter.resolve();
  }

  #fail(error: HoldfastError): void {
    this.#failure ??= error;
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.reject(error);
  }
}
