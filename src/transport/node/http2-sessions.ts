/**
 * The HTTP/2 connections of a port: their settings, their pings, their end.
 *
 * One timer serves them all. Each round, a connection that has not answered the ping before is cut, and
 * one that has had no stream for a while is asked to leave.
 */
import type { Socket } from "node:net";
import {
  constants,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import { ConnectionFate } from "./connection-fate.ts";
import type { Exchange } from "./exchange.ts";
import { Http2Exchange } from "./http2-exchange.ts";
import type { PortLimits } from "./port-limits.ts";

/** Room for the largest frame of a client (1 MiB and its head), so that it never waits for a window in its middle. */
const STREAM_WINDOW_BYTES = 2 * 1024 * 1024;
/** Many streams share a connection: one that is not read must not stop the others. */
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;

interface Kept {
  readonly socket: Socket;
  readonly fate: ConnectionFate;
  streamCount: number;
  isAwaited: boolean;
  isConfirming: boolean;
  idleSinceMs: number;
}

export function sessionKeeper(limits: PortLimits, handle: (exchange: Exchange) => void) {
  const sessions = new Map<ServerHttp2Session, Kept>();

  function round(): void {
    const nowMs = performance.now();
    for (const [session, kept] of sessions) {
      // It has left in order, and its peer has not hung up: HTTP/2 would wait for that without end.
      if (session.destroyed) kept.socket.destroy();
      else if (kept.isAwaited) {
        kept.fate.broke();
        session.destroy();
      } else if (kept.streamCount === 0 && nowMs - kept.idleSinceMs > limits.idleTimeoutMs) session.close();
      else ping(session, kept);
    }
  }

  function ping(session: ServerHttp2Session, kept: Kept): void {
    // One that is closing is asked too: it waits for its streams, and its peer may be gone.
    kept.isAwaited = true;
    const confirmed = kept.fate.mark();
    session.ping((failure) => {
      kept.isAwaited = false;
      if (failure === null) confirmed();
    });
  }

  const options: ServerOptions = {
    settings: {
      initialWindowSize: STREAM_WINDOW_BYTES,
      maxConcurrentStreams: limits.streamsPerConnectionMax,
      maxHeaderListSize: limits.headerBytesMax,
      enablePush: false,
    },
    // In MB, and counted against what waits to be sent as well: the bounds are those of our senders.
    maxSessionMemory: 1024,
    // Floods of malformed frames and of streams that are opened only to be reset end the connection.
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
    streamResetBurst: 1_000,
    streamResetRate: 100,
  };
  const timer = setInterval(round, limits.pingIntervalMs).unref();
  return {
    options,
    keep(session: ServerHttp2Session, socket: Socket): void {
      const fate = new ConnectionFate(socket, 2);
      const kept: Kept = {
        socket,
        fate,
        streamCount: 0,
        isAwaited: false,
        isConfirming: false,
        idleSinceMs: performance.now(),
      };
      sessions.set(session, kept);
      const peer = {
        isSecure: "encrypted" in socket,
        remoteAddress: socket.remoteAddress ?? "",
        lastBytesTimeoutMs: limits.lastBytesTimeoutMs,
        fate,
        isGone: () => session.destroyed,
      };
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
      session.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
        kept.streamCount++;
        confirm(session, kept);
        stream.on("close", () => {
          kept.streamCount--;
          kept.idleSinceMs = performance.now();
        });
        // What the settings ask for is advice: Node itself takes ten times as much.
        if (headerBytes(headers) > limits.headerBytesMax) {
          stream.on("error", () => undefined);
          stream.respond({ ":status": 431 }, { endStream: true });
          stream.close();
          return;
        }
        handle(new Http2Exchange(stream, headers, peer));
      });
      // The streams of a broken connection learn of it by their end.
      session.on("error", () => undefined);
      session.on("goaway", (code) => {
        if (code !== constants.NGHTTP2_NO_ERROR) fate.broke();
      });
      session.on("close", () => sessions.delete(session));
      // HTTP/2 knows no half-open connections: a peer that has hung up takes its streams along at once.
      socket.on("end", () => session.destroy());
    },
    /** Says GOAWAY: streams that are open may end, new ones go elsewhere. */
    close(): void {
      clearInterval(timer);
      for (const session of sessions.keys()) session.close();
    },
  };
}

/** Asks whether the responses so far have come through, one ping at a time. It is not one that the peer is cut for. */
function confirm(session: ServerHttp2Session, kept: Kept): void {
  const { fate } = kept;
  if (!fate.isWaiting || kept.isConfirming || session.destroyed) return;
  kept.isConfirming = true;
  const confirmed = fate.mark();
  session.ping((failure) => {
    kept.isConfirming = false;
    if (failure === null) confirmed();
  });
}

function headerBytes(headers: IncomingHttpHeaders): number {
  let byteCount = 0;
  for (const name in headers) byteCount += name.length + (headers[name]?.length ?? 0);
  return byteCount;
}
