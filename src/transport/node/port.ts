/**
 * One port for HTTP/1.1 and HTTP/2, in clear or by TLS.
 *
 * In clear, the first bytes of a connection tell: HTTP/2 begins with `PRI`, and no method of HTTP/1.1 does.
 * With a certificate, ALPN tells. What comes out is the same either way: one `Exchange` per request.
 *
 * A client that is slow or floods costs little and is cut: each phase of a connection (first bytes, headers, body, idle)
 * has its time, sizes and counts have limits, and a peer that does not answer a ping is gone (F2, E8).
 */
import { once } from "node:events";
import { createServer as createHttp1 } from "node:http";
import { performServerHandshake, type ServerHttp2Session } from "node:http2";
import { createServer as createTcp, type Server, type Socket } from "node:net";
import { createServer as createTls } from "node:tls";
import { HoldfastError } from "../../protocol/errors.ts";
import { ConnectionFate, endInTwoSteps } from "./connection-fate.ts";
import type { Exchange } from "./exchange.ts";
import { Http1Exchange } from "./http1-exchange.ts";
import { sessionKeeper } from "./http2-sessions.ts";
import { PORT_DEFAULTS, type PortLimits } from "./port-limits.ts";
import { sniff } from "./sniff.ts";

export interface PortOptions {
  /** Called for each request. Must not throw; what it throws is a bug and goes to `onBug`. */
  readonly handle: (exchange: Exchange) => void;
  /** Default: loopback. */
  readonly host?: string;
  /** 0 or absent: any free one. */
  readonly port?: number;
  /** PEM. Absent: in clear. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly limits?: Partial<PortLimits>;
  readonly onBug?: (bug: unknown) => void;
}

export interface Port {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Open connections, for metrics. */
  readonly connectionCount: number;
  /**
   * Takes nothing new, tells every connection to go elsewhere, waits for what is under way for at most
   * `drainMs`, then hangs up on the rest.
   */
  close(drainMs?: number): Promise<void>;
}

const DRAIN_MS = 5_000;

export async function openPort(options: PortOptions): Promise<Port> {
  const limits = { ...PORT_DEFAULTS, ...options.limits };
  const { lastBytesTimeoutMs } = limits;
  const sockets = new Set<Socket>();
  let isClosing = false;

  const handle = (exchange: Exchange): void => {
    try {
      options.handle(exchange);
    } catch (bug) {
      exchange.destroy();
      options.onBug?.(bug);
    }
  };

  const fates = new WeakMap<Socket, ConnectionFate>();
  const isLast = (): boolean => isClosing;
  const http1 = createHttp1(
    {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.idleTimeoutMs,
      connectionsCheckingInterval: Math.min(5_000, limits.headersTimeoutMs),
    },
    (request, response) => {
      const { socket } = request;
      const fate = fates.get(socket);
      // The response before said `connection: close`: this request could not be answered.
      if (fate === undefined || socket.writableEnded) {
        socket.destroy();
        return;
      }
      fate.mark()();
      handle(new Http1Exchange(request, response, { lastBytesTimeoutMs, isLast, fate }));
    },
  );
  // It never listens itself, and begins to watch its timeouts when it believes that it does.
  http1.emit("listening");

  const sessions = sessionKeeper(limits, handle);
  const serveHttp2 = (socket: Socket): void => {
    const session: ServerHttp2Session = performServerHandshake(socket, sessions.options);
    sessions.keep(session, socket);
    if (isClosing) session.close();
  };
  const serveHttp1 = (socket: Socket): void => {
    fates.set(socket, new ConnectionFate(socket, 1));
    endInTwoSteps(socket, limits.hangUpTimeoutMs);
    http1.emit("connection", socket);
    // The first bytes were put back into a socket that stands still.
    socket.resume();
  };

  const listener = listenerOf(options, limits, (socket, version) => {
    (version === 2 ? serveHttp2 : serveHttp1)(socket);
  });
  listener.maxConnections = limits.connectionsMax;
  listener.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
  });
  await listening(listener, options);

  return {
    ...addressOf(listener, options),
    get connectionCount() {
      return sockets.size;
    },
    async close(drainMs = DRAIN_MS) {
      if (isClosing) return;
      isClosing = true;
      const closed = once(listener, "close");
      listener.close();
      http1.close();
      sessions.close();
      const timer = setTimeout(() => {
        for (const socket of sockets) socket.destroy();
      }, drainMs);
      // Idle ones are closed above; those that answer a last request now become idle when they have.
      const sweep = setInterval(() => http1.closeIdleConnections(), 50);
      await closed;
      clearTimeout(timer);
      clearInterval(sweep);
    },
  };
}

/** Whatever listens calls `serve` with each connection once it is known what it speaks. */
function listenerOf(
  { tls }: PortOptions,
  limits: PortLimits,
  serve: (socket: Socket, version: 1 | 2) => void,
): Server {
  const tcp = { noDelay: true, keepAlive: true, allowHalfOpen: true } as const;
  if (tls === undefined) {
    return createTcp(tcp, (socket) => sniff(socket, limits.firstBytesTimeoutMs, serve));
  }
  const alpn = { ALPNProtocols: ["h2", "http/1.1"], handshakeTimeout: limits.firstBytesTimeoutMs };
  // Said here, so that no default of the process can lower it.
  const server = createTls({ ...tcp, ...tls, ...alpn, minVersion: "TLSv1.2" }, (socket) => {
    socket.on("error", () => undefined);
    serve(socket, socket.alpnProtocol === "h2" ? 2 : 1);
  });
  // Node only tells of a handshake that took too long: the connection would stay for as long as its client likes.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

async function listening(listener: Server, options: PortOptions): Promise<void> {
  listener.listen({ host: options.host ?? "127.0.0.1", port: options.port ?? 0, backlog: 4096 });
  await once(listener, "listening");
  // Running out of file descriptors must not end the process: that connection is lost, others continue.
  listener.on("error", (error) => options.onBug?.(error));
}

function addressOf(listener: Server, options: PortOptions): { host: string; port: number; url: string } {
  const address = listener.address();
  if (address === null || typeof address === "string") {
    throw new HoldfastError("internal", "the port has no address");
  }
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  const scheme = options.tls === undefined ? "http" : "https";
  return { host: address.address, port: address.port, url: `${scheme}://${host}:${address.port}` };
}
