/**
 * `Stream`: both directions in one HTTP/2 exchange.
 *
 * The client's end of the request is the end of the connection, as `end` of the wire is the server's. A
 * frame that cannot be read is answered with an error frame and the end.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { decodeClientFrame } from "../../protocol/frame-codec.ts";
import type { ClientFrame } from "../../protocol/frames.ts";
import { StreamRequestSchema } from "../../protocol/gen/holdfast/v1/stream_pb.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AcceptedMeta, Handler } from "../transport.ts";
import { EnvelopeParser } from "../connect/envelopes.ts";
import { type Format, fromWireFormat } from "../connect/formats.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal, checkAddress, checkEventId } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import { responseOutlet, ServerWire } from "./server-wire.ts";

/** The largest frame of a client. In JSON a body is base64, a third longer. */
export function frameBytesMax(format: Format): number {
  const bytesMax = LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax;
  return format === "proto" ? bytesMax : Math.ceil((bytesMax * 4) / 3);
}

/** A client that has been told the end ends its side too; one that does not is hung up on. */
export const LINGER_MS = 5_000;

export class StreamCall implements ExchangeListener {
  readonly #exchange: Exchange;
  readonly #meta: AcceptedMeta;
  readonly #format: Format;
  readonly #parser: EnvelopeParser;
  readonly #wire: ServerWire;
  readonly #handler: Handler<ClientFrame>;
  readonly #onBug: (bug: unknown) => void;
  #isClosed = false;
  #lingering: NodeJS.Timeout | undefined;

  constructor(exchange: Exchange, meta: AcceptedMeta, format: Format, { accept, onBug }: CallContext) {
    this.#onBug = onBug;
    this.#exchange = exchange;
    this.#meta = meta;
    this.#format = format;
    this.#parser = new EnvelopeParser(frameBytesMax(format));
    const outlet = responseOutlet(exchange, format);
    this.#wire = new ServerWire({
      write: (messages) => outlet.write(messages),
      end: (error) => {
        outlet.end(error);
        this.#lingering = setTimeout(() => exchange.destroy(), LINGER_MS).unref();
      },
    });
    this.#handler = accept(meta, this.#wire);
  }

  received(piece: Uint8Array): void {
    if (this.#wire.isEnded) return;
    try {
      this.#parser.push(piece);
      for (let next = this.#parser.next(); next !== undefined; next = this.#parser.next()) {
        if (next.isEnd) throw invalidFrame("a client ends its request, it does not send an end message");
        this.#take(next.message);
        if (this.#wire.isEnded) return;
      }
    } catch (cause) {
      this.#wire.refuse(asRefusal(cause, this.#onBug));
    }
  }

  #take(message: Uint8Array): void {
    const bytes = fromWireFormat(this.#format, StreamRequestSchema, message);
    const { frame, idempotencyKey } = decodeClientFrame(bytes);
    checkAddress(this.#meta, idempotencyKey);
    if (frame.kind === "attach") checkEventId(this.#exchange, frame);
    this.#handler.received(frame);
  }

  ended(): void {
    if (!this.#wire.isEnded && !this.#parser.isBetween) {
      this.#wire.refuse(invalidFrame("the request ends within a message"));
    }
    this.#wire.end();
    this.#close(undefined);
  }

  drained(): void {
    if (!this.#wire.isWaiting || this.#isClosed) return;
    this.#wire.isWaiting = false;
    this.#handler.drained();
  }

  closed(): void {
    clearTimeout(this.#lingering);
    const isInOrder = this.#wire.isEnded;
    this.#wire.lose();
    this.#close(isInOrder ? undefined : new HoldfastError("connection_lost", "the connection broke"));
  }

  #close(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#handler.closed(reason);
  }
}
