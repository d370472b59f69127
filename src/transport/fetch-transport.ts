/**
 * The client's half by `fetch`, for browsers and wherever only HTTP/1.1 gets through: one response that goes on for what comes
 * back, small requests for what is sent.
 *
 * Each connection has a response of its own (`Attach`), or all that have the same credentials share one (`Listen`): a browser
 * opens six HTTP/1.1 connections to a server, and a page may have more streams than that.
 */
import { encodeAppend, decodeAppendOutcome } from "../protocol/append-codec.ts";
import type { AppendOutcome } from "../protocol/append-codec.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { decodeServerFrame, encodeClientFrame } from "../protocol/frame-codec.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { Appender } from "./appender.ts";
import { encodeBase64Url } from "./connect/base64.ts";
import { BLOB_SERVICE_PATH, HEADERS, STREAM_SERVICE_PATH } from "./connect/calls.ts";
import { callHeaders, SERVER_FRAME_BYTES_MAX } from "./connect/client-call.ts";
import { type Fetch, serverStreamCall, unaryCall } from "./connect/fetch-calls.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { fetchBlobs } from "./fetch-blobs.ts";
import { FetchListener } from "./fetch-listener.ts";
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
  const connections = new Set<FetchConnection>();
  const listeners = new Map<string | undefined, FetchListener>();
  let closing = new AbortController();

  function listenerFor(credentials: string | undefined): FetchListener {
    const found = listeners.get(credentials);
    if (found !== undefined) return found;
    const listener = new FetchListener(context, credentials, () => {
      if (listeners.get(credentials) === listener) listeners.delete(credentials);
    });
    listeners.set(credentials, listener);
    return listener;
  }

  return {
    connect(meta, handler) {
      const connection = new FetchConnection(context, meta, handler, () => connections.delete(connection));
      if (options.shared === true) connection.shareWith(() => listenerFor(meta.credentials));
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

export class FetchConnection implements Wire<ClientFrame> {
  readonly tag: string;
  readonly #context: FetchContext;
  readonly #meta: ClientMeta;
  readonly #handler: Handler<ServerFrame>;
  readonly #onClosed: () => void;
  readonly #abort = new AbortController();
  readonly #appender: Appender;
  #listenerFor: (() => FetchListener) | undefined;
  #listener: FetchListener | undefined;
  #hasBegun = false;
  #isJoined = false;
  #isEnded = false;
  #isClosed = false;
  #hasErrorFrame = false;
  #cancelLinger: () => void = () => undefined;

  constructor(context: FetchContext, meta: ClientMeta, handler: Handler<ServerFrame>, onClosed: () => void) {
    this.#context = context;
    this.#meta = meta;
    this.#handler = handler;
    this.#onClosed = onClosed;
    this.tag = encodeBase64Url(context.environment.randomBytes(18));
    this.#appender = new Appender({
      send: (append) => this.#append(append),
      drained: () => this.#handler.drained(),
      refused: (error) => this.#refused(error),
      failed: (error) => this.close(error),
    });
  }

  shareWith(listenerFor: () => FetchListener): void {
    this.#listenerFor = listenerFor;
  }

  write(frames: readonly ClientFrame[]): number {
    if (this.#isEnded || this.#isClosed) return 0;
    const [first, ...others] = frames;
    if (this.#hasBegun || first === undefined) return this.#appender.write(frames);
    this.#hasBegun = true;
    if (first.kind !== "attach") {
      this.#closeSoon(new HoldfastError("invalid_frame", "a connection begins with an attach"));
      return 0;
    }
    if (this.#listenerFor !== undefined) {
      this.#join(this.#listenerFor());
      return this.#appender.write(frames);
    }
    queueMicrotask(() => void this.#attach(first));
    return this.#appender.write(others);
  }

  end(): void {
    if (this.#isEnded || this.#isClosed) return;
    this.#isEnded = true;
    this.#appender.end();
    if (!this.#hasBegun) return this.#closeSoon(undefined);
    this.#cancelLinger = this.#context.environment.after(LINGER_MS, () => this.close(undefined));
  }

  /** Tells the handler, once, and lets go of everything. */
  close(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelLinger();
    this.#appender.stop();
    this.#listener?.leave(this);
    this.#onClosed();
    this.#abort.abort();
    this.#handler.closed(reason);
  }

  /** What came for this connection, through whichever response. */
  received(frame: ServerFrame): void {
    if (this.#isClosed) return;
    this.#hasErrorFrame = frame.kind === "error";
    this.#handler.received(frame);
  }

  /** The listener has heard of this connection, so the server knows it. */
  joined(): void {
    this.#isJoined = true;
    this.#appender.open();
  }

  #closeSoon(reason: HoldfastError | undefined): void {
    queueMicrotask(() => this.close(reason));
  }

  async #attach(frame: AttachFrame): Promise<void> {
    try {
      const request = encodeClientFrame(frame, this.#meta.idempotencyKey);
      const headers = { ...this.#headers(frame.eventId), [HEADERS.connectionTag]: this.tag };
      await serverStreamCall(this.#call("Attach", headers), request, SERVER_FRAME_BYTES_MAX, {
        opened: () => this.#appender.open(),
        message: (message) => {
          this.received(decodeServerFrame(message));
          return !this.#isClosed;
        },
      });
      this.close(undefined);
    } catch (cause) {
      this.#receivingFailed(HoldfastError.from(cause, "internal", FAILED));
    }
  }

  #join(listener: FetchListener): void {
    this.#listener = listener;
    listener.add(this);
    void this.#joinWhenReady(listener);
  }

  async #joinWhenReady(listener: FetchListener): Promise<void> {
    try {
      const name = await listener.ready;
      if (!this.#isClosed) this.#appender.join(name);
    } catch (cause) {
      this.close(HoldfastError.from(cause, "internal", FAILED));
    }
  }

  /** The error of the call repeats the error frame, if there was one. */
  #receivingFailed(error: HoldfastError): void {
    this.close(this.#hasErrorFrame ? undefined : error);
  }

  /** Nothing attached: it is over. Anything else the response will say as well, behind what is still on its way. */
  #refused(error: HoldfastError): void {
    if (this.#isClosed) return;
    if (error.code === "connection_lost") {
      // The server does not know the listener: the next connection must not try it again.
      if (!this.#isJoined) this.#listener?.close(error);
      return this.close(error);
    }
    this.#cancelLinger();
    this.#cancelLinger = this.#context.environment.after(LINGER_MS, () => this.close(error));
  }

  async #append(
    append: Omit<Parameters<typeof encodeAppend>[0], "idempotencyKey" | "connectionTag">,
  ): Promise<AppendOutcome> {
    const { idempotencyKey } = this.#meta;
    const [first] = append.frames;
    const eventId = first?.kind === "attach" ? first.eventId : undefined;
    const message = encodeAppend({ ...append, idempotencyKey, connectionTag: this.tag });
    return decodeAppendOutcome(await unaryCall(this.#call("Append", this.#headers(eventId)), message));
  }

  #headers(eventId: number | undefined): Record<string, string> {
    return { ...this.#context.headers, ...callHeaders(this.#meta, eventId) };
  }

  #call(method: string, headers: Record<string, string>) {
    const { fetch, baseUrl } = this.#context;
    return { fetch, url: baseUrl + method, headers, signal: this.#abort.signal };
  }
}
