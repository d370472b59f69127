/**
 * `Attach`: the receiving half of one connection, as a response that goes on.
 *
 * The request is one message, the attach. What the client says afterwards comes by appends, which find the
 * connection by its tag.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { decodeClientFrame } from "../../protocol/frame-codec.ts";
import { StreamRequestSchema } from "../../protocol/gen/holdfast/v1/stream_pb.ts";
import type { AcceptedMeta } from "../transport.ts";
import { type Format, fromWireFormat } from "../connect/formats.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal, checkAddress, checkEventId, readTag } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import { OneMessage } from "./one-message.ts";
import { refuse } from "./refuse.ts";
import { responseOutlet } from "./server-wire.ts";
import { SplitConnection } from "./split-connection.ts";
import { frameBytesMax } from "./stream-call.ts";

export class AttachCall implements ExchangeListener {
  readonly #exchange: Exchange;
  readonly #meta: AcceptedMeta;
  readonly #format: Format;
  readonly #context: CallContext;
  readonly #request: OneMessage;
  #connection: SplitConnection | undefined;

  constructor(exchange: Exchange, meta: AcceptedMeta, format: Format, context: CallContext) {
    this.#exchange = exchange;
    this.#meta = meta;
    this.#format = format;
    this.#context = context;
    this.#request = new OneMessage(frameBytesMax(format), () => exchange.destroy());
  }

  received(piece: Uint8Array): void {
    this.#orRefuse(() => this.#request.push(piece));
  }

  ended(): void {
    this.#orRefuse(() => {
      if (!this.#exchange.hasResponded) this.#begin(this.#request.finish());
    });
  }

  drained(): void {
    this.#connection?.drained();
  }

  closed(): void {
    this.#request.cancel();
    const connection = this.#connection;
    const lost = new HoldfastError("connection_lost", "the connection broke");
    connection?.close(connection.isEnded ? undefined : lost);
  }

  #begin(message: Uint8Array): void {
    const bytes = fromWireFormat(this.#format, StreamRequestSchema, message);
    const { frame, idempotencyKey } = decodeClientFrame(bytes);
    checkAddress(this.#meta, idempotencyKey);
    if (frame.kind !== "attach") throw invalidFrame("the request's frame must be an attach");
    checkEventId(this.#exchange, frame);
    const { accept, connections } = this.#context;
    const tag = readTag(this.#exchange);
    const outlet = responseOutlet(this.#exchange, this.#format);
    const connection = new SplitConnection(this.#meta, tag, outlet, accept, () =>
      connections.remove(connection),
    );
    this.#connection = connection;
    connections.add(connection);
    connection.append([frame], () => undefined);
  }

  #orRefuse(run: () => void): void {
    try {
      run();
    } catch (cause) {
      this.#request.cancel();
      const error = asRefusal(cause, this.#context.onBug);
      if (this.#connection === undefined) refuse(this.#exchange, error);
      else this.#connection.refuse(error);
    }
  }
}
