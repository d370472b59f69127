/**
 * One HTTP/2 connection of a client, shared by many calls.
 *
 * While it carries calls it is pinged: a TCP connection whose other end has vanished says nothing by itself. It takes no
 * more calls once the server has said that it goes away, or when it broke.
 */
import { given } from "../../protocol/given.ts";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Http2ConnectOptions } from "./http2-client.ts";

/** What comes is given on at once, so windows only need to be large enough for the way. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;

export class ClientSession {
  readonly #session: ClientHttp2Session;
  readonly #streamsMax: number;
  readonly #pingIntervalMs: number;
  #streamCount = 0;
  #pinging: NodeJS.Timeout | undefined;
  /** It takes no more calls. */
  #isLeaving = false;
  /** Why it broke, for the calls on it. */
  failure: Error | undefined;

  constructor(url: URL, options: Http2ConnectOptions, onOver: () => void) {
    this.#streamsMax = options.streamsPerSessionMax ?? 1_000;
    this.#pingIntervalMs = options.pingIntervalMs ?? 10_000;
    const session = connect(url, {
      settings: { initialWindowSize: STREAM_WINDOW_BYTES, enablePush: false },
      maxSessionMemory: 1024,
      ...given({ ca: options.ca }),
    });
    this.#session = session;
    const timer = setTimeout(
      () => session.destroy(new Error("the server does not answer")),
      options.connectTimeoutMs ?? 10_000,
    );
    session.on("connect", () => {
      clearTimeout(timer);
      // Given up while it was being made, it still connects.
      if (!session.destroyed) session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    });
    session.on("error", (error) => {
      this.failure ??= error;
    });
    session.on("goaway", () => {
      this.#isLeaving = true;
      if (this.#streamCount === 0) this.#idle();
    });
    session.on("close", () => {
      clearTimeout(timer);
      clearInterval(this.#pinging);
      this.#isLeaving = true;
      onOver();
    });
  }

  get hasRoom(): boolean {
    const allowed = this.#session.remoteSettings.maxConcurrentStreams ?? this.#streamsMax;
    return !this.#isLeaving && this.#streamCount < Math.min(this.#streamsMax, allowed);
  }

  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#session.request(headers);
    this.#streamCount++;
    if (this.#streamCount === 1) this.#busy();
    stream.on("close", () => {
      this.#streamCount--;
      if (this.#streamCount === 0) this.#idle();
    });
    return stream;
  }

  destroy(): void {
    // Its `close` event comes later, and a call before that must not get a dead session.
    this.#isLeaving = true;
    this.#session.destroy();
  }

  #busy(): void {
    this.#session.ref();
    let isAwaited = false;
    const ping = (): void => {
      if (isAwaited) return this.#session.destroy(new Error("the server does not answer a ping"));
      if (this.#session.connecting || this.#session.destroyed) return;
      isAwaited = this.#session.ping(() => {
        isAwaited = false;
      });
    };
    this.#pinging = setInterval(ping, this.#pingIntervalMs).unref();
    // It may have died while no call used it.
    ping();
  }

  #idle(): void {
    clearInterval(this.#pinging);
    if (this.#isLeaving) this.#session.close();
    else this.#session.unref();
  }
}
