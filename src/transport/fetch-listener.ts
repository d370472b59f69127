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

export type FetchListener = ReturnType<typeof fetchListener>;

export function fetchListener(
  context: ListenerContext,
  credentials: string | undefined,
  onClosed: () => void,
) {
  const { environment } = context;
  const connections = new Map<string, Listening>();
  const abort = new AbortController();
  const isReady = Promise.withResolvers<string>();
  let heardMs = environment.monotonic();
  let isClosed = false;
  let cancelIdle: () => void = () => undefined;
  let cancelSilence: () => void = () => undefined;

  function close(reason: HoldfastError): void {
    if (isClosed) return;
    isClosed = true;
    cancelIdle();
    cancelSilence();
    onClosed();
    abort.abort();
    isReady.reject(reason);
    // Each one leaves during the loop, which a Map allows.
    for (const connection of connections.values()) connection.close(reason);
  }

  async function listen(): Promise<void> {
    const name = encodeBase64Url(environment.randomBytes(18));
    const headers = {
      ...context.headers,
      ...credentialHeaders(credentials),
      [HEADERS.protocolVersion]: CONNECT_PROTOCOL_VERSION,
    };
    const call = { fetch: context.fetch, url: `${context.baseUrl}Listen`, headers, signal: abort.signal };
    try {
      await serverStreamCall(call, encodeListen(name), HEARD_BYTES_MAX, {
        opened: () => undefined,
        message: (message) => {
          isReady.resolve(name);
          heard(message);
          return !isClosed;
        },
      });
      close(new HoldfastError("connection_lost", "the server has ended the listener"));
    } catch (cause) {
      close(HoldfastError.from(cause, "internal", "the listener failed"));
    }
  }

  function heard(message: Uint8Array): void {
    heardMs = environment.monotonic();
    const { connectionTag, frames, closed } = decodeHeard(message);
    // Frames for a connection that has left are dropped.
    const connection = connections.get(connectionTag);
    if (connection === undefined) return;
    connection.joined();
    for (const frame of frames) connection.received(frame);
    if (closed) connection.close(undefined);
  }

  /** Looks from time to time instead of setting a timer anew for every message. */
  function watchSilence(): void {
    cancelSilence = environment.after(SILENCE_MS / 5, () => {
      const silentMs = environment.monotonic() - heardMs;
      if (silentMs < SILENCE_MS) return watchSilence();
      close(new HoldfastError("connection_lost", "the listener has fallen silent"));
    });
  }

  // Callers that wait get the error; none has to wait.
  isReady.promise.catch(() => undefined);
  watchSilence();
  void listen();
  return {
    /** Its name, once the server has it. Rejects when it cannot be reached. */
    ready: isReady.promise,
    add(connection: Listening): void {
      cancelIdle();
      connections.set(connection.tag, connection);
    },
    leave(connection: Listening): void {
      connections.delete(connection.tag);
      if (connections.size > 0 || isClosed) return;
      const idle = new HoldfastError("connection_lost", "no connection listens any more");
      cancelIdle = environment.after(IDLE_MS, () => close(idle));
    },
    close,
  };
}
