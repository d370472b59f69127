/**
 * `Stream`: both directions in one HTTP/2 exchange.
 *
 * The client's end of the request is the end of the connection, as `end` of the wire is the server's. A
 * frame that cannot be read is answered with an error frame and the end.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { decodeClientFrame } from "../../protocol/frame-codec.ts";
import { StreamRequestSchema } from "../../protocol/gen/holdfast/v1/stream.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AcceptedMeta } from "../transport.ts";
import { EnvelopeParser } from "../connect/envelopes.ts";
import type { Format } from "../connect/formats.ts";
import { fromWireFormat } from "./wire-format.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal, checkAddress, checkEventId } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import { responseOutlet, ServerWire } from "./server-wire.ts";

/** The largest frame of a client. In JSON a body is base64, a third longer. */
export function frameBytesMax(format: Format): number {
  const bytesMax = LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax;
  return format === "proto" ? bytesMax : Math.ceil((bytesMax * 4) / 3);
}

/** A client that has received the end ends its side too; one that does not is hung up on. */
export const LINGER_MS = 5_000;

export function streamCall(
  exchange: Exchange,
  meta: AcceptedMeta,
  format: Format,
  { accept, onBug }: CallContext,
): ExchangeListener {
  const parser = new EnvelopeParser(frameBytesMax(format));
  const outlet = responseOutlet(exchange, format);
  const wire = new ServerWire({
    write: (messages) => outlet.write(messages),
    end: (error) => {
      outlet.end(error);
      lingering = setTimeout(() => exchange.destroy(), LINGER_MS).unref();
    },
  });
  let isClosed = false;
  let lingering: NodeJS.Timeout | undefined;

  function take(message: Uint8Array): void {
    const bytes = fromWireFormat(format, StreamRequestSchema, message);
    const { frame, idempotencyKey } = decodeClientFrame(bytes);
    checkAddress(meta, idempotencyKey);
    if (frame.kind === "attach") checkEventId(exchange, frame);
    handler.received(frame);
  }

  function close(reason: HoldfastError | undefined): void {
    if (isClosed) return;
    isClosed = true;
    handler.closed(reason);
  }

  const handler = accept(meta, wire);
  return {
    received(piece) {
      if (wire.isEnded) return;
      try {
        parser.push(piece);
        for (let next = parser.next(); next !== undefined; next = parser.next()) {
          if (next.isEnd) throw invalidFrame("a client ends its request, it does not send an end message");
          take(next.message);
          if (wire.isEnded) return;
        }
      } catch (cause) {
        wire.refuse(asRefusal(cause, onBug));
      }
    },
    ended() {
      if (!wire.isEnded && !parser.isBetween) {
        wire.refuse(invalidFrame("the request ends within a message"));
      }
      wire.end();
      close(undefined);
    },
    drained() {
      if (!wire.isWaiting || isClosed) return;
      wire.isWaiting = false;
      handler.drained();
    },
    closed() {
      clearTimeout(lingering);
      const isInOrder = wire.isEnded;
      wire.lose();
      close(isInOrder ? undefined : new HoldfastError("connection_lost", "the connection broke"));
    },
  };
}
