/**
 * `Listen`: one response for many connections.
 *
 * Each connection writes into it under its tag, and all of them share its fate and its backpressure: what waits
 * is the listener's, so every sender sees the same number and pauses.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { ListenRequestSchema, ListenResponseSchema } from "../../protocol/gen/holdfast/v1/stream.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { decodeListen, encodeHeard } from "../../protocol/listen-codec.ts";
import { endEnvelope, envelopes } from "../connect/envelopes.ts";
import { endOfStreamJson } from "../connect/errors.ts";
import type { Format } from "../connect/formats.ts";
import { fromWireFormat, toWireFormat } from "./wire-format.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal } from "./call-head.ts";
import type { Exchange, ExchangeListener } from "./exchange.ts";
import type { Listening } from "./listener-table.ts";
import { oneMessage } from "./one-message.ts";
import { refuse } from "./refuse.ts";
import { streamHead } from "./server-wire.ts";
import type { SplitConnection } from "./split-connection.ts";

/** A page has a few streams, and a principal may have 100 open ones; readers of the same stream come on top. */
const CONNECTIONS_PER_LISTENER_MAX = 4 * LIMITS.openStreamsPerPrincipalMax;

/** A client that has not taken so many signs of life in a row is gone, or plays dead. */
const UNTAKEN_SIGNS_MAX = 3;

export function listener(
  exchange: Exchange,
  principal: string,
  format: Format,
  { listeners, onBug }: CallContext,
): ExchangeListener {
  const request = oneMessage(LIMITS.frameOverheadBytesMax, () => exchange.destroy());
  const connections = new Map<string, SplitConnection>();
  let name: string | undefined;
  let isWaiting = false;
  let untakenSigns = 0;

  /** Its connections may all have left, or never come: nothing else would notice that nothing is taken (F2). */
  function signOfLife(): void {
    if (isWaiting && ++untakenSigns > UNTAKEN_SIGNS_MAX) exchange.destroy();
    else write("", [], false);
  }

  function write(tag: string, frames: readonly Uint8Array[], isClosed: boolean): number {
    const message = toWireFormat(format, ListenResponseSchema, encodeHeard(tag, frames, isClosed));
    const waitingBytes = exchange.write(envelopes([message]));
    if (waitingBytes > 0) isWaiting = true;
    return waitingBytes;
  }

  function orRefuse(run: () => void): void {
    try {
      run();
    } catch (cause) {
      request.cancel();
      refuse(exchange, asRefusal(cause, onBug));
    }
  }

  const listening: Listening = {
    signOfLife,
    end: (reason) => exchange.end(endEnvelope(Buffer.from(endOfStreamJson(reason)))),
    outlet(tag) {
      if (connections.has(tag)) throw invalidFrame("this listener has a connection under this tag already");
      if (connections.size >= CONNECTIONS_PER_LISTENER_MAX) {
        throw new HoldfastError("overloaded", "too many connections share this listener; begin another one");
      }
      return {
        write: (messages) => write(tag, messages, false),
        end: () => {
          write(tag, [], true);
          // The other side has nothing to answer, but no handler hears of the end inside the call that made it.
          queueMicrotask(() => connections.get(tag)?.close(undefined));
        },
      };
    },
    join: (connection) => void connections.set(connection.tag, connection),
    leave(connection) {
      if (connections.get(connection.tag) === connection) connections.delete(connection.tag);
    },
  };
  return {
    received: (piece) => orRefuse(() => request.push(piece)),
    ended: () =>
      orRefuse(() => {
        if (exchange.hasResponded) return;
        const message = fromWireFormat(format, ListenRequestSchema, request.finish());
        name = decodeListen(message);
        listeners.add(principal, name, listening);
        exchange.respond(200, streamHead(format));
        signOfLife();
      }),
    drained() {
      isWaiting = false;
      untakenSigns = 0;
      for (const connection of connections.values()) connection.drained();
    },
    closed() {
      request.cancel();
      if (name !== undefined) listeners.remove(principal, name, listening);
      const lost = new HoldfastError("connection_lost", "the listener broke");
      // A connection takes itself out during the loop, which a Map allows.
      for (const connection of connections.values()) connection.close(lost);
    },
  };
}
