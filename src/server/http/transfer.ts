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

/** After an answer that came early so much more of the request is read, for clients that only then look at the answer. */
const DISCARD_BYTES_MAX = 1024 * 1024;

export type Transfer = ReturnType<typeof newTransfer>;

export function newTransfer({ exchange, contentType, messageBytesMax, stallMs, totalMs }: TransferOptions) {
  let pieces: Uint8Array[] = [];
  let hasRequestEnded = false;
  let failure: HoldfastError | undefined;
  let waiter: PromiseWithResolvers<void> | undefined;
  let isPaused = false;
  /** What was written last waits. */
  let isFull = false;
  const mayWrite = (): boolean => !isFull;
  let discardLeft: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  const parser = new EnvelopeParser(messageBytesMax);
  const untilMs = performance.now() + totalMs;
  exchange.listen({
    received,
    ended: () => {
      hasRequestEnded = true;
      wake();
    },
    drained: () => {
      isFull = false;
      wake();
    },
    closed: () => {
      clearTimeout(timer);
      fail(new HoldfastError("connection_lost", "the client hung up"));
    },
  });

  function resume(): void {
    if (!isPaused) return;
    isPaused = false;
    exchange.resume();
  }

  function respond(): void {
    if (exchange.hasResponded) return;
    exchange.respond(200, { "content-type": contentType });
  }

  function received(piece: Uint8Array): void {
    if (discardLeft === undefined) {
      pieces.push(piece);
      // Only here, within the call that brings a piece: an HTTP/2 stream of Node that is paused while it waits for one
      // does not continue when it is resumed.
      isPaused = true;
      exchange.pause();
      wake();
      return;
    }
    discardLeft -= piece.length;
    if (discardLeft < 0) exchange.destroy();
  }

  /** Until something has happened; not for longer than a peer may take. */
  function wait(): Promise<void> {
    if (failure !== undefined) return Promise.reject(failure);
    waiter = Promise.withResolvers<void>();
    const leftMs = Math.min(stallMs, untilMs - performance.now());
    timer = setTimeout(
      () => fail(new HoldfastError("unavailable", "this transfer is too slow; try again")),
      Math.max(0, leftMs),
    );
    return waiter.promise;
  }

  function wake(): void {
    if (waiter === undefined) return;
    clearTimeout(timer);
    waiter.resolve();
    waiter = undefined;
  }

  function fail(error: HoldfastError): void {
    failure ??= error;
    waiter?.reject(error);
    waiter = undefined;
  }

  return {
    /** The next message; undefined after the last. */
    async read(): Promise<Uint8Array | undefined> {
      for (;;) {
        const envelope = parser.next();
        if (envelope !== undefined) {
          if (envelope.isEnd) throw new HoldfastError("invalid_frame", "only a response has an end envelope");
          return envelope.message;
        }
        const piece = pieces.shift();
        if (piece !== undefined) {
          parser.push(piece);
        } else if (hasRequestEnded) {
          if (parser.isBetween) return undefined;
          throw new HoldfastError("invalid_frame", "the request ends within a message");
        } else {
          resume();
          await wait();
        }
      }
    },
    /** Resolves when more may be written. */
    async write(bytes: Uint8Array): Promise<void> {
      if (failure !== undefined) throw failure;
      respond();
      isFull = exchange.write(bytes) > 0;
      while (!mayWrite()) await wait();
    },
    /** The last envelope, and the end. What is still coming is not wanted. */
    finish(error?: HoldfastError): void {
      if (failure?.code === "connection_lost") return;
      respond();
      exchange.end(endEnvelope(Buffer.from(endOfStreamJson(error))));
      pieces = [];
      discardLeft = DISCARD_BYTES_MAX;
      timer = setTimeout(() => exchange.destroy(), stallMs);
      resume();
    },
  };
}
