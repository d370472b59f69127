/**
 * The same requests as a port has, out of the program's own server: as a listener of `node:http`, and as a handler of the fetch standard.
 *
 * That server owns sockets, TLS and timeouts. HTTP/2 in both directions at once is only
 * on a port of our own: clients of ours use `transport: "fetch"` here.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { fieldsOf } from "../../protocol/fields.ts";
import { ConnectionFate } from "./connection-fate.ts";
import type { Exchange } from "./exchange.ts";
import { FetchExchange } from "./fetch-exchange.ts";
import { Http1Exchange } from "./http1-exchange.ts";
import { PORT_DEFAULTS } from "./port-limits.ts";

interface MountableOptions {
  readonly handle: (exchange: Exchange) => void;
  readonly onBug: (bug: unknown) => void;
  /** Under which path we are mounted, such as `/ai`, by a server that does not take it off itself. Default: none. */
  readonly prefix?: string | undefined;
}

export interface Mountable {
  /** For `node:http`, `node:https`, Express, and whatever hands over Node's own requests. */
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** For Hono, Next, and whatever hands over a `Request`. The second argument may say who asks: `{ remoteAddress }`, or `{ incoming }` as Hono on Node does. */
  readonly fetch: (request: Request, from?: unknown) => Promise<Response>;
  /** Requests under way. */
  readonly openCount: number;
  /** Resolves when nothing is under way, hanging up on what takes longer than `drainMs`. */
  close(drainMs: number): Promise<void>;
}

export function mountable({ handle, onBug, prefix = "" }: MountableOptions): Mountable {
  const { lastBytesTimeoutMs } = PORT_DEFAULTS;
  const fates = new WeakMap<Socket, ConnectionFate>();
  const open = new Set<Exchange>();
  let isClosing = false;
  let onEmpty = (): void => undefined;

  function begin(exchange: Exchange): void {
    open.add(exchange);
    try {
      handle(exchange);
    } catch (bug) {
      exchange.destroy();
      onBug(bug);
    }
  }

  function over(exchange: Exchange): void {
    open.delete(exchange);
    if (open.size === 0) onEmpty();
  }

  function fateOf(socket: Socket): ConnectionFate {
    const known = fates.get(socket);
    if (known !== undefined) return known;
    const fate = new ConnectionFate(socket, 1);
    fates.set(socket, fate);
    return fate;
  }

  return {
    listener: (request, response) => {
      if (request.readableEnded) {
        refuse(response);
        return;
      }
      request.url = within(prefix, request.url ?? "/");
      const fate = fateOf(request.socket);
      fate.mark()();
      const isLast = (): boolean => isClosing;
      const exchange = new Http1Exchange(request, response, { lastBytesTimeoutMs, isLast, fate });
      response.once("close", () => over(exchange));
      begin(exchange);
    },
    fetch: async (request, from) => {
      const path = within(prefix, new URL(request.url).pathname);
      const exchange = new FetchExchange(request, path, addressOf(from));
      exchange.onClosed = () => over(exchange);
      begin(exchange);
      return exchange.response;
    },
    get openCount() {
      return open.size;
    },
    async close(drainMs) {
      isClosing = true;
      if (open.size === 0) return;
      const empty = new Promise<void>((resolve) => (onEmpty = resolve));
      const timer = setTimeout(() => {
        for (const exchange of open) exchange.destroy();
      }, drainMs);
      await empty;
      clearTimeout(timer);
    },
  };
}

/** The path behind the prefix; one that does not begin with it was cut already. */
function within(prefix: string, path: string): string {
  return prefix !== "" && path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
}

/** What another handler has read cannot be read again. */
function refuse(response: ServerResponse): void {
  const message =
    "the body of this request was read before Holdfast got it: mount Holdfast in front of body parsers such as express.json()";
  response.writeHead(500, { "content-type": "application/json" });
  response.end(JSON.stringify({ code: "internal", error: { message, type: "server_error" }, message }));
}

function addressOf(from: unknown): string {
  const { remoteAddress, incoming } = fieldsOf(from);
  const address = remoteAddress ?? fieldsOf(fieldsOf(incoming)["socket"])["remoteAddress"];
  return typeof address === "string" ? address : "";
}
