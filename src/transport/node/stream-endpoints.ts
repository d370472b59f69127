/**
 * The server's half of every HTTP transport: the calls of `StreamService`, served on exchanges whose
 * principal is known.
 *
 * The port's owner authenticates and limits, then hands the exchange over. Nothing that a client sends
 * makes these throw; what does is a bug, reported to `onBug`, and costs that exchange only.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Accept, Caller } from "../transport.ts";
import { type Method, methodOf } from "../connect/calls.ts";
import { serveAppend } from "./append-call.ts";
import { attachCall } from "./attach-call.ts";
import { BODY_BYTES_MAX, bodyBudget } from "./body-budget.ts";
import type { CallContext } from "./call-context.ts";
import { asRefusal, HeadRefusal, readFormat, readMeta } from "./call-head.ts";
import { connectionTable } from "./connection-table.ts";
import type { Exchange } from "./exchange.ts";
import { listener } from "./listener.ts";
import { listenerTable } from "./listener-table.ts";
import { refuse } from "./refuse.ts";
import { streamCall } from "./stream-call.ts";

export interface StreamEndpointsOptions {
  readonly accept: Accept;
  readonly onBug?: (bug: unknown) => void;
  /** Memory for the bodies of all appends that are coming in; one principal may have half. */
  readonly appendBytesMax?: number;
}

export interface StreamEndpoints {
  /** Whether a path is one of ours. */
  handles(path: string): boolean;
  /** Serves a call, refusing what is malformed. Never throws. */
  handle(exchange: Exchange, caller: Caller): void;
  /** Connections of the split transport, for metrics. */
  readonly splitCount: number;
  readonly listenerCount: number;
  /** Ends every listener, for a server that shuts down: one without connections would wait for ever. */
  close(): void;
}

export function streamEndpoints({
  accept,
  onBug = () => undefined,
  appendBytesMax = BODY_BYTES_MAX,
}: StreamEndpointsOptions): StreamEndpoints {
  const connections = connectionTable();
  const listeners = listenerTable();
  const bodies = bodyBudget(appendBytesMax);
  const context: CallContext = { accept, connections, listeners, bodies, onBug };

  function serve(exchange: Exchange, caller: Caller, method: Method): void {
    const format = readFormat(exchange, method === "Append" ? "unary" : "stream");
    if (format instanceof HeadRefusal) return refuse(exchange, format.error, format.status);
    if (method === "Stream" && exchange.httpVersion === 1) {
      const { error, status } = new HeadRefusal(505, "Stream needs HTTP/2; use Attach and Append");
      return refuse(exchange, error, status);
    }
    if (method === "Listen") {
      return exchange.listen(listener(exchange, caller.principal, format, context));
    }
    const meta = readMeta(exchange, caller);
    switch (method) {
      case "Stream":
        return exchange.listen(streamCall(exchange, meta, format, context));
      case "Attach":
        return exchange.listen(attachCall(exchange, meta, format, context));
      case "Append":
        serveAppend(exchange, meta, format, context).catch((cause: unknown) => failed(exchange, cause));
        return;
    }
  }

  function failed(exchange: Exchange, cause: unknown): void {
    const error = asRefusal(cause, onBug);
    if (exchange.hasResponded) exchange.destroy();
    else refuse(exchange, error);
  }

  return {
    handles: (path) => methodOf(path) !== undefined,
    handle(exchange, caller) {
      const method = methodOf(exchange.path);
      try {
        if (method === undefined) refuse(exchange, new HoldfastError("not_found", "there is no such call"));
        else serve(exchange, caller, method);
      } catch (cause) {
        failed(exchange, cause);
      }
    },
    get splitCount() {
      return connections.size;
    },
    get listenerCount() {
      return listeners.size;
    },
    close: () => listeners.close(),
  };
}
