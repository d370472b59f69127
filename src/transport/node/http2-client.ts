/**
 * The client's half over HTTP/2: `Stream`, both directions in one call.
 *
 * All connections of one client share an HTTP/2 session; a new one is opened when the last one broke or is full. A session
 * without streams does not keep a process alive.
 */
import type { BlobCalls, Connect } from "../transport.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { http2Blobs } from "./http2-blobs.ts";
import { http2Call } from "./http2-call.ts";
import { ClientSession } from "./http2-client-session.ts";

export interface Http2ConnectOptions {
  /** `http://` speaks HTTP/2 from the first byte, `https://` agrees on it by ALPN. A path in front of ours is kept. */
  readonly url: string;
  /** PEM of a certificate authority to trust instead of the system's. */
  readonly ca?: string;
  /** Sent with every call. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A server that has not answered the ping before is given up. Default 10 s. */
  readonly pingIntervalMs?: number;
  /** Default 10 s. */
  readonly connectTimeoutMs?: number;
  /** Above it another session is opened. Default 1,000: what one TCP connection carries well. */
  readonly streamsPerSessionMax?: number;
}

export interface Http2Transport {
  readonly connect: Connect;
  readonly blobs: BlobCalls;
  /** Breaks what is open. The transport can be used again afterwards. */
  close(): void;
}

export function http2Connect(options: Http2ConnectOptions): Http2Transport {
  const url = new URL(options.url);
  const basePath = url.pathname.replace(/\/+$/, "");
  const sessions = new Set<ClientSession>();

  function sessionWithRoom(): ClientSession {
    for (const session of sessions) if (session.hasRoom) return session;
    const session = new ClientSession(url, options, () => sessions.delete(session));
    sessions.add(session);
    return session;
  }

  return {
    connect(meta, handler) {
      const call = http2Call(meta, handler);
      // Whatever is written in this turn travels with the head, and the handler is not called before `connect` returned.
      queueMicrotask(() => {
        if (call.isClosed()) return;
        try {
          call.open(sessionWithRoom(), basePath, options.headers ?? {});
        } catch (cause) {
          call.close(new HoldfastError("connection_lost", "the call could not be made", { cause }));
        }
      });
      return call;
    },
    blobs: http2Blobs({ sessionWithRoom, basePath, headers: options.headers ?? {} }),
    close() {
      for (const session of sessions) session.destroy();
    },
  };
}
