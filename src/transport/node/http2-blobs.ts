/**
 * `BlobService` over the HTTP/2 sessions of a client: an upload is sent as fast as the server takes it.
 */
import type { ClientHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import { blobCallsOver, type BlobRequest } from "../connect/blob-call.ts";
import { BLOB_SERVICE_PATH } from "../connect/calls.ts";
import { callHeaders, SERVER_FRAME_BYTES_MAX } from "../connect/client-call.ts";
import { EnvelopeParser, envelopes } from "../connect/envelopes.ts";
import { readEndOfStream, readErrorResponse } from "../connect/errors.ts";
import { contentType, formatOf } from "../connect/formats.ts";
import { systemEnvironment } from "../environment.ts";
import { Patience } from "../patience.ts";
import type { BlobCalls } from "../transport.ts";
import type { ClientSession } from "./http2-client-session.ts";

/** A refusal is a short text; a longer one is cut. */
const REFUSAL_BYTES_MAX = 64 * 1024;

export interface Http2BlobsOptions {
  sessionWithRoom(): ClientSession;
  readonly basePath: string;
  readonly headers: Readonly<Record<string, string>>;
}

export function http2Blobs(options: Http2BlobsOptions): BlobCalls {
  return blobCallsOver(async (request, received) => {
    const { meta, method, signal, patienceMs } = request;
    signal.throwIfAborted();
    const session = options.sessionWithRoom();
    const stream = opened(session, {
      ...options.headers,
      ...callHeaders(meta, undefined),
      "content-type": contentType("proto", "stream"),
      ":method": "POST",
      ":path": `${options.basePath}${BLOB_SERVICE_PATH}${method}`,
    });
    const patience = new Patience(systemEnvironment(), patienceMs);
    const stop = AbortSignal.any([signal, patience.signal]);
    const hangUp = (): void => stream.close(constants.NGHTTP2_CANCEL);
    stop.addEventListener("abort", hangUp);
    try {
      upload(stream, request).catch(hangUp);
      await answerOf(stream, session, (message) => {
        patience.renew();
        received(message);
      });
    } catch (cause) {
      // What has not been sent by now is not wanted.
      hangUp();
      stop.throwIfAborted();
      throw cause;
    } finally {
      patience.end();
      stop.removeEventListener("abort", hangUp);
    }
  });
}

function opened(session: ClientSession, headers: Parameters<ClientSession["request"]>[0]): ClientHttp2Stream {
  try {
    return session.request(headers);
  } catch (cause) {
    throw new HoldfastError("connection_lost", "the call could not be made", { cause });
  }
}

async function upload(stream: ClientHttp2Stream, { messages }: BlobRequest): Promise<void> {
  for (const message of messages) {
    if (stream.destroyed || stream.closed) return;
    if (!stream.write(envelopes([message]))) await drained(stream);
  }
  stream.end();
}

/** Or closed: then nothing will drain any more. */
function drained(stream: ClientHttp2Stream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done);
      stream.off("close", done);
      resolve();
    };
    stream.on("drain", done);
    stream.on("close", done);
  });
}

/** Resolves at the server's last envelope: a response that stops without it has broken (B6). */
function answerOf(
  stream: ClientHttp2Stream,
  session: ClientSession,
  received: (message: Uint8Array) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const parser = new EnvelopeParser(SERVER_FRAME_BYTES_MAX);
  const refusalBody: Uint8Array[] = [];
  let refusal: { readonly status: number; readonly retryAfter: string | undefined } | undefined;
  let refusalBytes = 0;
  stream.on("response", (headers) => {
    const status = headers[":status"] ?? 0;
    if (status === 200 && formatOf(headers["content-type"], "stream") === "proto") return;
    refusal = { status, retryAfter: headers["retry-after"] };
  });
  stream.on("data", (piece: Uint8Array) => {
    if (refusal !== undefined) {
      refusalBytes += piece.length;
      if (refusalBytes <= REFUSAL_BYTES_MAX) refusalBody.push(piece);
      return;
    }
    try {
      parser.push(piece);
      for (let next = parser.next(); next !== undefined; next = parser.next()) {
        if (!next.isEnd) {
          received(next.message);
          continue;
        }
        const error = readEndOfStream(next.message);
        if (error === undefined) resolve();
        else reject(error);
        return;
      }
    } catch (cause) {
      reject(cause instanceof Error ? cause : new HoldfastError("internal", String(cause)));
    }
  });
  const over = (): void => {
    if (refusal === undefined) reject(broken(session.failure));
    else reject(readErrorResponse(refusal.status, Buffer.concat(refusalBody), refusal.retryAfter));
  };
  stream.on("end", over);
  stream.on("error", (error: Error) => reject(broken(session.failure ?? error)));
  stream.on("close", over);
  return promise;
}

function broken(cause: Error | undefined): HoldfastError {
  const why = cause === undefined ? "" : `: ${cause.message}`;
  return new HoldfastError("connection_lost", `the connection broke${why}`, { cause });
}
