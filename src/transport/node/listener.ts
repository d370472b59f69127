/**
 * `Listen`: one response for many connections.
 *
 * Each connection writes into it under its tag, and all of them share its fate and its backpressure: what waits
 * is the listener's, so every sender sees the same number and pauses.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { ListenRequestSchema, ListenResponseSchema } from "../../protocol/gen/holdfast/v1/stream_pb.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { decodeListen, encodeHeard } from "../../protocol/listen-codec.ts";
import { endEnvelope, envelopes } from "../connect/envelopes.ts";
import { endOfStreamJson } from "../connect/errors.ts";
import { type Format, fromWireFormat, toWireFormat } from "../connect/formats.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import type { Listening } from "./listener-table.ts";
import { OneMessage } from "./one-message.ts";
import { refuse } from "./refuse.ts";
import { type Outlet, streamHead } from "./server-wire.ts";
import type { SplitConnection } from "./split-connection.ts";

/** A page has a few streams, and a principal may have 100 open ones; readers of the same stream come on top. */
const CONNECTIONS_PER_LISTENER_MAX = 4 * LIMITS.openStreamsPerPrincipalMax;

/** So many signs of life in a row that nobody has taken: that client is gone, or plays dead. */
const UNTAKEN_SIGNS_MAX = 3;

export class Listener implements ExchangeListener, Listening {
  readonly #exchange: Exchange;
  readonly #format: Format;
  readonly #principal: string;
  readonly #context: CallContext;
  readonly #request: OneMessage;
  readonly #connections = new Map<string, SplitConnection>();
  #name: string | undefined;
  #isWaiting = false;
  #untakenSigns = 0;

  constructor(exchange: Exchange, principal: string, format: Format, context: CallContext) {
    this.#exchange = exchange;
    this.#format = format;
    this.#principal = principal;
    this.#context = context;
    this.#request = new OneMessage(LIMITS.frameOverheadBytesMax, () => exchange.destroy());
  }

  received(piece: Uint8Array): void {
    this.#orRefuse(() => this.#request.push(piece));
  }

  ended(): void {
    this.#orRefuse(() => {
      if (this.#exchange.hasResponded) return;
      const message = fromWireFormat(this.#format, ListenRequestSchema, this.#request.finish());
      this.#name = decodeListen(message);
      this.#context.listeners.add(this.#principal, this.#name, this);
      this.#exchange.respond(200, streamHead(this.#format));
      this.signOfLife();
    });
  }

  drained(): void {
    this.#isWaiting = false;
    this.#untakenSigns = 0;
    for (const connection of this.#connections.values()) connection.drained();
  }

  closed(): void {
    this.#request.cancel();
    if (this.#name !== undefined) this.#context.listeners.remove(this.#principal, this.#name, this);
    const lost = new HoldfastError("connection_lost", "the listener broke");
    // A connection takes itself out while this goes on, which a Map allows.
    for (const connection of this.#connections.values()) connection.close(lost);
  }

  /** Its connections may all have left, or never come: nobody else would notice that nothing is taken (F2). */
  signOfLife(): void {
    if (this.#isWaiting && ++this.#untakenSigns > UNTAKEN_SIGNS_MAX) this.#exchange.destroy();
    else this.#write("", [], false);
  }

  end(reason: HoldfastError): void {
    this.#exchange.end(endEnvelope(Buffer.from(endOfStreamJson(reason))));
  }

  outlet(tag: string): Outlet {
    if (this.#connections.has(tag))
      throw invalidFrame("this listener has a connection under this tag already");
    if (this.#connections.size >= CONNECTIONS_PER_LISTENER_MAX) {
      throw new HoldfastError("overloaded", "too many connections share this listener; begin another one");
    }
    return {
      write: (messages) => this.#write(tag, messages, false),
      end: () => {
        this.#write(tag, [], true);
        // The other side has nothing to answer, but nobody hears of the end inside the call that made it.
        queueMicrotask(() => this.#connections.get(tag)?.close(undefined));
      },
    };
  }

  join(connection: SplitConnection): void {
    this.#connections.set(connection.tag, connection);
  }

  leave(connection: SplitConnection): void {
    if (this.#connections.get(connection.tag) === connection) this.#connections.delete(connection.tag);
  }

  #write(tag: string, frames: readonly Uint8Array[], isClosed: boolean): number {
    const message = toWireFormat(this.#format, ListenResponseSchema, encodeHeard(tag, frames, isClosed));
    const waitingBytes = this.#exchange.write(envelopes([message]));
    if (waitingBytes > 0) this.#isWaiting = true;
    return waitingBytes;
  }

  #orRefuse(run: () => void): void {
    try {
      run();
    } catch (cause) {
      this.#request.cancel();
      refuse(this.#exchange, asRefusal(cause, this.#context.onBug));
    }
  }
}
