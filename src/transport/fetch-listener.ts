/**
 * One response for all connections of a page that have the same credentials.
 *
 * It begins with the first connection and ends some time after the last one. Its server says something every ten seconds: one
 * that has been silent for longer is gone, and every connection with it. Without that, a connection that is made
 * anew because of the silence would join the same dead listener.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { ServerFrame } from "../protocol/frames.ts";
import { decodeHeard, encodeListen, HEARD_BYTES_MAX } from "../protocol/listen-codec.ts";
import { encodeBase64Url } from "./connect/base64.ts";
import { CONNECT_PROTOCOL_VERSION, HEADERS } from "./connect/calls.ts";
import { credentialHeaders } from "./connect/client-call.ts";
import { type Fetch, serverStreamCall } from "./connect/fetch-calls.ts";
import type { Environment } from "./environment.ts";

/** A connection as its listener sees it. */
export interface Listening {
  readonly tag: string;
  joined(): void;
  received(frame: ServerFrame): void;
  close(reason: HoldfastError | undefined): void;
}

interface ListenerContext {
  readonly fetch: Fetch;
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly environment: Environment;
}

/** Two signs of life may get lost, not three; less than a client waits before it reconnects by itself. */
const SILENCE_MS = 25_000;

/** A page that opens one stream after another keeps its listener. */
const IDLE_MS = 10_000;

export class FetchListener {
  /** Its name, once the server has it. Rejects when it cannot be reached. */
  readonly ready: Promise<string>;
  readonly #environment: Environment;
  readonly #onClosed: () => void;
  readonly #connections = new Map<string, Listening>();
  readonly #abort = new AbortController();
  readonly #isReady = Promise.withResolvers<string>();
  #heardMs: number;
  #isClosed = false;
  #cancelIdle: () => void = () => undefined;
  #cancelSilence: () => void = () => undefined;

  constructor(context: ListenerContext, credentials: string | undefined, onClosed: () => void) {
    this.#environment = context.environment;
    this.#onClosed = onClosed;
    this.ready = this.#isReady.promise;
    // Whoever waits hears of it; nobody has to.
    this.ready.catch(() => undefined);
    this.#heardMs = context.environment.monotonic();
    this.#watchSilence();
    void this.#listen(context, credentials);
  }

  add(connection: Listening): void {
    this.#cancelIdle();
    this.#connections.set(connection.tag, connection);
  }

  leave(connection: Listening): void {
    this.#connections.delete(connection.tag);
    if (this.#connections.size > 0 || this.#isClosed) return;
    const idle = new HoldfastError("connection_lost", "nobody listens any more");
    this.#cancelIdle = this.#environment.after(IDLE_MS, () => this.close(idle));
  }

  close(reason: HoldfastError): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelIdle();
    this.#cancelSilence();
    this.#onClosed();
    this.#abort.abort();
    this.#isReady.reject(reason);
    // Each one leaves while this goes on, which a Map allows.
    for (const connection of this.#connections.values()) connection.close(reason);
  }

  async #listen(context: ListenerContext, credentials: string | undefined): Promise<void> {
    const name = encodeBase64Url(this.#environment.randomBytes(18));
    const headers = {
      ...context.headers,
      ...credentialHeaders(credentials),
      [HEADERS.protocolVersion]: CONNECT_PROTOCOL_VERSION,
    };
    const call = {
      fetch: context.fetch,
      url: `${context.baseUrl}Listen`,
      headers,
      signal: this.#abort.signal,
    };
    try {
      await serverStreamCall(call, encodeListen(name), HEARD_BYTES_MAX, {
        opened: () => undefined,
        message: (message) => {
          this.#isReady.resolve(name);
          this.#heard(message);
          return !this.#isClosed;
        },
      });
      this.close(new HoldfastError("connection_lost", "the server has ended the listener"));
    } catch (cause) {
      this.close(HoldfastError.from(cause, "internal", "the listener failed"));
    }
  }

  #heard(message: Uint8Array): void {
    this.#heardMs = this.#environment.monotonic();
    const { connectionTag, frames, closed } = decodeHeard(message);
    // Frames for a connection that has left are nobody's.
    const connection = this.#connections.get(connectionTag);
    if (connection === undefined) return;
    connection.joined();
    for (const frame of frames) connection.received(frame);
    if (closed) connection.close(undefined);
  }

  /** Looks from time to time instead of setting a timer anew for every message. */
  #watchSilence(): void {
    this.#cancelSilence = this.#environment.after(SILENCE_MS / 5, () => {
      const silentMs = this.#environment.monotonic() - this.#heardMs;
      if (silentMs < SILENCE_MS) return this.#watchSilence();
      this.close(new HoldfastError("connection_lost", "the listener has fallen silent"));
    });
  }
}
