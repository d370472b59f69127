/**
 * `Attach`: the receiving half of one connection, as a response that stays open.
 *
 * The request is one message, the attach. What the client says afterwards comes by appends, which find the
 * connection by its tag.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { decodeClientFrame } from "../../protocol/frame-codec.ts";
import { StreamRequestSchema } from "../../protocol/gen/holdfast/v1/stream.ts";
import type { AcceptedMeta } from "../transport.ts";
import type { Format } from "../connect/formats.ts";
import { fromWireFormat } from "./wire-format.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal, checkAddress, checkEventId, readTag } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import { oneMessage } from "./one-message.ts";
import { refuse } from "./refuse.ts";
import { responseOutlet } from "./server-wire.ts";
import { SplitConnection } from "./split-connection.ts";
import { frameBytesMax } from "./stream-call.ts";

export function attachCall(
  exchange: Exchange,
  meta: AcceptedMeta,
  format: Format,
  { accept, connections, onBug }: CallContext,
): ExchangeListener {
  const request = oneMessage(frameBytesMax(format), () => exchange.destroy());
  let connection: SplitConnection | undefined;

  function begin(message: Uint8Array): void {
    const bytes = fromWireFormat(format, StreamRequestSchema, message);
    const { frame, idempotencyKey } = decodeClientFrame(bytes);
    checkAddress(meta, idempotencyKey);
    if (frame.kind !== "attach") throw invalidFrame("the request's frame must be an attach");
    checkEventId(exchange, frame);
    const tag = readTag(exchange);
    const outlet = responseOutlet(exchange, format);
    const begun = new SplitConnection(meta, tag, outlet, accept, () => connections.remove(begun));
    connection = begun;
    connections.add(begun);
    begun.append([frame], () => undefined);
  }

  function orRefuse(run: () => void): void {
    try {
      run();
    } catch (cause) {
      request.cancel();
      const error = asRefusal(cause, onBug);
      if (connection === undefined) refuse(exchange, error);
      else connection.refuse(error);
    }
  }

  return {
    received: (piece) => orRefuse(() => request.push(piece)),
    ended: () =>
      orRefuse(() => {
        if (!exchange.hasResponded) begin(request.finish());
      }),
    drained: () => connection?.drained(),
    closed() {
      request.cancel();
      const lost = new HoldfastError("connection_lost", "the connection broke");
      connection?.close(connection.isEnded ? undefined : lost);
    },
  };
}
