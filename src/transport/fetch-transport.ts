/**
 * The client's half by `fetch`, for browsers and wherever only HTTP/1.1 gets through: one long response for what is
 * received, small requests for what is sent.
 *
 * Each connection has a response of its own (`Attach`), or all that have the same credentials share one (`Listen`): a browser
 * opens six HTTP/1.1 connections to a server, and a page may have more streams than that.
 */
import { encodeAppend, decodeAppendOutcome } from "../protocol/append-codec.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { decodeServerFrame, encodeClientFrame } from "../protocol/frame-codec.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { appender } from "./appender.ts";
import { encodeBase64Url } from "./connect/base64.ts";
import { BLOB_SERVICE_PATH, HEADERS, STREAM_SERVICE_PATH } from "./connect/calls.ts";
import { callHeaders, SERVER_FRAME_BYTES_MAX } from "./connect/client-call.ts";
import { type Fetch, serverStreamCall, unaryCall } from "./connect/fetch-calls.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { fetchBlobs } from "./fetch-blobs.ts";
import { type FetchListener, fetchListener, type Listening } from "./fetch-listener.ts";
import type { BlobCalls, ClientMeta, Connect, Handler, Wire } from "./transport.ts";

/** What a connection that broke for an unknown reason says. */
const FAILED = "the connection failed";

export interface FetchTransportOptions {
  /** The server's origin; a path in front of ours is kept. */
  readonly url: string;
  /** All connections share one response. Default: false. */
  readonly shared?: boolean;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the platform's. */
  readonly fetch?: Fetch;
  readonly environment?: Environment;
}

export interface FetchTransport {
  readonly connect: Connect;
  readonly blobs: BlobCalls;
  /** Breaks what is open. The transport can be used again afterwards. */
  close(): void;
}

/** What every request needs. */
export interface FetchContext {
  readonly fetch: Fetch;
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly environment: Environment;
}

export function fetchConnect(options: FetchTransportOptions): FetchTransport {
  const root = options.url.replace(/\/+$/, "");
  const context: FetchContext = {
    fetch: options.fetch ?? ((url, init) => fetch(url, init)),
    baseUrl: `${root}${STREAM_SERVICE_PATH}`,
    headers: options.headers ?? {},
    environment: options.environment ?? systemEnvironment(),
  };
  const connections = new Set<Listening>();
  const listeners = new Map<string | undefined, FetchListener>();
  let closing = new AbortController();

  function listenerFor(credentials: string | undefined): FetchListener {
    const found = listeners.get(credentials);
    if (found !== undefined) return found;
    const listener = fetchListener(context, credentials, () => {
      if (listeners.get(credentials) === listener) listeners.delete(credentials);
    });
    listeners.set(credentials, listener);
    return listener;
  }

  return {
    connect(meta, handler) {
      const shared = options.shared === true ? () => listenerFor(meta.credentials) : undefined;
      const connection = fetchConnection(context, meta, handler, shared, () =>
        connections.delete(connection),
      );
      connections.add(connection);
      return connection;
    },
    blobs: fetchBlobs(context, `${root}${BLOB_SERVICE_PATH}`, () => closing.signal),
    close() {
      const reason = new HoldfastError("connection_lost", "the transport was closed");
      for (const connection of connections) connection.close(reason);
      for (const listener of listeners.values()) listener.close(reason);
      closing.abort(reason);
      closing = new AbortController();
    },
  };
}

/** How long a server may take to answer an end, or to say through the response what an append was refused for. */
const LINGER_MS = 5_000;

/** `listenerFor` finds the listener whose response the connection shares; undefined when it has one of its own. */
function fetchConnection(
  context: FetchContext,
  meta: ClientMeta,
  handler: Handler<ServerFrame>,
  listenerFor: (() => FetchListener) | undefined,
  onClosed: () => void,
): Wire<ClientFrame> & Listening {
  const tag = encodeBase64Url(context.environment.randomBytes(18));
  const abort = new AbortController();
  let listener: FetchListener | undefined;
  let hasBegun = false;
  let isJoined = false;
  let isEnded = false;
  let isClosed = false;
  let hasErrorFrame = false;
  let cancelLinger: () => void = () => undefined;

  /** Tells the handler, once, and lets go of everything. */
  function close(reason: HoldfastError | undefined): void {
    if (isClosed) return;
    isClosed = true;
    cancelLinger();
    sender.stop();
    listener?.leave(connection);
    onClosed();
    abort.abort();
    handler.closed(reason);
  }

  /** What came for this connection, through whichever response. */
  function received(frame: ServerFrame): void {
    if (isClosed) return;
    hasErrorFrame = frame.kind === "error";
    handler.received(frame);
  }

  function closeSoon(reason: HoldfastError | undefined): void {
    queueMicrotask(() => close(reason));
  }

  async function attach(frame: AttachFrame): Promise<void> {
    try {
      const request = encodeClientFrame(frame, meta.idempotencyKey);
      const own = call("Attach", frame.eventId, { [HEADERS.connectionTag]: tag });
      await serverStreamCall(own, request, SERVER_FRAME_BYTES_MAX, {
        opened: () => sender.open(),
        message: (message) => {
          received(decodeServerFrame(message));
          return !isClosed;
        },
      });
      close(undefined);
    } catch (cause) {
      // The error of the call repeats the error frame, if there was one.
      close(hasErrorFrame ? undefined : HoldfastError.from(cause, "internal", FAILED));
    }
  }

  async function join(joined: FetchListener): Promise<void> {
    listener = joined;
    joined.add(connection);
    try {
      const name = await joined.ready;
      if (!isClosed) sender.join(name);
    } catch (cause) {
      close(HoldfastError.from(cause, "internal", FAILED));
    }
  }

  /** Nothing attached: it is over. Anything else the response will say as well, behind what is still on its way. */
  function refused(error: HoldfastError): void {
    if (isClosed) return;
    if (error.code === "connection_lost") {
      // The server does not know the listener: the next connection must not try it again.
      if (!isJoined) listener?.close(error);
      return close(error);
    }
    cancelLinger();
    cancelLinger = context.environment.after(LINGER_MS, () => close(error));
  }

  function call(method: string, eventId: number | undefined, more: Record<string, string> = {}) {
    const { fetch, baseUrl } = context;
    const headers = { ...context.headers, ...callHeaders(meta, eventId), ...more };
    return { fetch, url: baseUrl + method, headers, signal: abort.signal };
  }

  const sender = appender({
    async send(append) {
      const { idempotencyKey } = meta;
      const [first] = append.frames;
      const eventId = first?.kind === "attach" ? first.eventId : undefined;
      const message = encodeAppend({ ...append, idempotencyKey, connectionTag: tag });
      return decodeAppendOutcome(await unaryCall(call("Append", eventId), message));
    },
    drained: () => handler.drained(),
    refused,
    failed: close,
  });
  const connection: Wire<ClientFrame> & Listening = {
    tag,
    write(frames) {
      if (isEnded || isClosed) return 0;
      const [first, ...others] = frames;
      if (hasBegun || first === undefined) return sender.write(frames);
      hasBegun = true;
      if (first.kind !== "attach") {
        closeSoon(new HoldfastError("invalid_frame", "a connection begins with an attach"));
        return 0;
      }
      if (listenerFor !== undefined) {
        void join(listenerFor());
        return sender.write(frames);
      }
      queueMicrotask(() => void attach(first));
      return sender.write(others);
    },
    end() {
      if (isEnded || isClosed) return;
      isEnded = true;
      sender.end();
      if (!hasBegun) return closeSoon(undefined);
      cancelLinger = context.environment.after(LINGER_MS, () => close(undefined));
    },
    close,
    received,
    /** The listener has heard of this connection, so the server knows it. */
    joined() {
      isJoined = true;
      sender.open();
    },
  };
  return connection;
}
