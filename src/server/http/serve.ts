/**
 * A server of streams on a port: HTTP/1.1 and HTTP/2, in clear or by TLS.
 *
 * Puts the parts of this folder around the transport's endpoints. `docs/OPERATIONS.md` tells operators what they see of it.
 */
import { given } from "../../protocol/given.ts";
import type { Logger } from "pino";
import { pino } from "pino";
import type * as budget from "../../core/budget.ts";
import { type Mountable, mountable } from "../../transport/node/mountable.ts";
import { openPort, type Port } from "../../transport/node/port.ts";
import type { PortLimits } from "../../transport/node/port-limits.ts";
import { streamEndpoints } from "../../transport/node/stream-endpoints.ts";
import type { Server } from "../server.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import { logBug, loggedAccept, type ProviderBreaks, type RequestLine } from "./access-log.ts";
import { blobEndpoints } from "./blob-endpoints.ts";
import { BLOB_DEFAULTS, type BlobLimits } from "./blob-limits.ts";
import { byteBudget } from "./byte-budget.ts";
import { type Call, createEdge } from "./edge.ts";
import type { FrontPage } from "./front-page.ts";
import { newHttpCounters, type RequestKind } from "./http-counters.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import type { Mount } from "./mount.ts";
import { openCalls } from "./open-calls.ts";
import { isLoopbackName, originJudge } from "./origin.ts";
import { type Authenticate, createSignIn, FAILED_SIGN_INS } from "./sign-in.ts";

export interface HttpOptions {
  readonly server: Server;
  readonly authenticate: Authenticate;
  /** Default: loopback. */
  readonly host?: string;
  /** 0 or absent: any free one. False: none, and requests come by `listener` and `fetch`. */
  readonly port?: number | false;
  /** Under which path `listener` and `fetch` are mounted, where it is not taken off before. */
  readonly prefix?: string | undefined;
  /** PEM. Absent: in clear. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Names besides those of loopback that this server is reached by. The host it is bound to is one. */
  readonly allowedHosts?: readonly string[];
  /** Origins of other sites' pages that may use this server. */
  readonly allowedOrigins?: readonly string[];
  /** What answers under paths of its own. */
  readonly mounts?: readonly Mount[];
  /** What stands at `/`. Absent: a notice. */
  readonly page?: FrontPage;
  /** More lines for `/metrics`, in Prometheus' format: of what is mounted. */
  readonly extraMetrics?: () => string;
  /** Absent: says nothing. */
  readonly logger?: Logger;
  /** Called for each request when it is over, with the line that the log gets. */
  readonly onRequest?: ((line: RequestLine, exchange: Exchange) => void) | undefined;
  /** A request reads an answer of the stream of this hash. What it returns is called when the request is over, for its line in the log. */
  readonly onAnswer?: ((stream: string) => () => ProviderBreaks) | undefined;
  /** One more reason why this server should not be sent anything; undefined when there is none. */
  readonly unreadyReason?: () => Promise<string | undefined>;
  /** Why a supervisor should restart this process; undefined when it need not. */
  readonly illness?: () => string | undefined;
  readonly portLimits?: Partial<PortLimits>;
  readonly blobLimits?: Partial<BlobLimits>;
  readonly failedSignIns?: budget.Options;
  /** How often the API keys of open calls are checked again, so that a revoked one ends them. Default: 10 s. */
  readonly recheckMs?: number;
}

/** Without a port, `port` is 0, and `host` and `url` are empty. */
export interface HttpServer extends Pick<Mountable, "listener" | "fetch"> {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /**
   * In this order: `/ready` says no, for `noticeMs`; new requests are refused; the server asks clients to reconnect; what is under way
   * ends, for at most `drainMs`; the rest is cut. Nothing acknowledged is lost. The store stays open: it is not ours.
   */
  close(options?: CloseOptions): Promise<void>;
}

interface CloseOptions {
  /** Called when the server asks clients to reconnect. Default: 5 s. */
  readonly drainMs?: number | (() => number);
  /** Behind a load balancer that polls `/ready`: a little more than its interval. Default: 0. */
  readonly noticeMs?: number;
  /** Awaited once new requests are refused, before the server asks clients to reconnect. Default: nothing. */
  readonly drain?: () => Promise<void>;
}

const DRAIN_MS = 5_000;
const RECHECK_MS = 10_000;

/** A store that takes longer to answer than this is not usable. */
const PROBE_MS = 2_000;

export async function serveHttp(options: HttpOptions): Promise<HttpServer> {
  const { server } = options;
  const logger = options.logger ?? pino({ enabled: false });
  const host = options.host ?? "127.0.0.1";
  const http = newHttpCounters();
  const blobLimits = { ...BLOB_DEFAULTS, ...options.blobLimits };
  const blobMemory = byteBudget(blobLimits.heldBytesMax, blobLimits.waitingMax);
  const signIn = createSignIn(options.authenticate, options.failedSignIns ?? FAILED_SIGN_INS);
  const underWay = openCalls(
    (authorization) => signIn.isGood(authorization),
    options.recheckMs ?? RECHECK_MS,
  );
  const onBug = (bug: unknown): void => {
    server.counters.bugs++;
    logBug(logger, bug);
  };
  const mounts = options.mounts ?? [];
  let isClosing = false;
  let isStopped = false;

  const streams = streamEndpoints({ accept: loggedAccept(server.accept, logger, http), onBug });
  const streamCall: Call = (exchange, caller) => streams.handle(exchange, caller);
  const calls: Partial<Record<RequestKind, Call>> = {
    stream: streamCall,
    attach: streamCall,
    append: streamCall,
    listen: streamCall,
  };
  if (server.blobs !== undefined) {
    const sources = { blobs: server.blobs, memory: blobMemory, limits: blobLimits, http };
    Object.assign(calls, blobEndpoints({ ...sources, counters: server.counters, onBug }));
  }

  async function unreadyReason(): Promise<string | undefined> {
    if (isClosing) return "shutting down";
    if (!(await isAnswering(server))) return "the store cannot be used";
    return options.unreadyReason?.();
  }

  const edge = createEdge({
    judge: originJudge({
      allowedHosts: [...(options.allowedHosts ?? []), ...boundName(host)],
      allowedOrigins: options.allowedOrigins ?? [],
    }),
    signIn,
    openCalls: underWay,
    calls,
    mounts,
    page: options.page,
    metrics: () => metrics,
    // Whom another server lets in, we cannot know.
    hasOpenMetrics: options.port !== false && isLoopbackName(host),
    unreadyReason,
    illness: () => (isClosing ? undefined : options.illness?.()),
    isStopped: () => isStopped,
    logger,
    onRequest: options.onRequest,
    onAnswer: options.onAnswer,
    http,
    counters: server.counters,
  });
  const mounted = mountable({ handle: edge, onBug, prefix: options.prefix });
  const port =
    options.port === false
      ? NO_PORT
      : await openPort({
          ...given({ host: options.host, port: options.port, tls: options.tls, limits: options.portLimits }),
          handle: edge,
          onBug,
        });
  const metrics: Metrics = createMetrics({
    server,
    http,
    failedSignIns: () => signIn.failureCount,
    sockets: () => port.connectionCount + mounted.openCount,
    blobBytesHeld: () => blobMemory.heldBytes,
    more: options.extraMetrics,
  });

  async function close({ drainMs = DRAIN_MS, noticeMs = 0, drain }: CloseOptions = {}): Promise<void> {
    if (isClosing) return;
    isClosing = true;
    logger.info("shutting down");
    if (noticeMs > 0) await new Promise((resolve) => setTimeout(resolve, noticeMs));
    isStopped = true;
    await drain?.();
    for (const mount of mounts) mount.close();
    // Both at once: the port waits for connections to end, and a client ends its connection when the server asks it to reconnect.
    const told = server.shutdown().then(() => streams.close());
    const waitMs = typeof drainMs === "number" ? drainMs : drainMs();
    await Promise.all([told, port.close(waitMs), mounted.close(waitMs)]);
    metrics.close();
    underWay.close();
    logger.info("shut down");
  }

  logger.info({ url: port.url, tls: options.tls !== undefined }, "listening");
  const { listener, fetch } = mounted;
  return { host: port.host, port: port.port, url: port.url, listener, fetch, close };
}

const NO_PORT: Port = { host: "", port: 0, url: "", connectionCount: 0, close: async () => undefined };

/** A server that is bound to one address goes by it; one that is bound to all of them does not say by which. */
function boundName(host: string): readonly string[] {
  if (host === "" || host === "0.0.0.0" || host === "::") return [];
  return [host.includes(":") ? `[${host}]` : host];
}

/** Whether the store answers, and soon. */
async function isAnswering(server: Server): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), PROBE_MS);
  server.probe().then(
    () => resolve(true),
    () => resolve(false),
  );
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
