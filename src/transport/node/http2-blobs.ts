/**
 * `BlobService` over the HTTP/2 sessions of a client: an upload is sent as fast as the server takes it.
 */
import type { ClientHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import { blobCallsOver, type BlobRequest } from "../connect/blob-call.ts";
import { BLOB_SERVICE_PATH } from "../connect/calls.ts";
import { callHeaders } from "../connect/client-call.ts";
import { envelopes } from "../connect/envelopes.ts";
import { contentType } from "../connect/formats.ts";
import { systemEnvironment } from "../environment.ts";
import { patienceOf } from "../patience.ts";
import type { BlobCalls } from "../transport.ts";
import { hearAnswer } from "./http2-answer.ts";
import type { ClientSession } from "./http2-client-session.ts";

interface Http2BlobsOptions {
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
    const patience = patienceOf(systemEnvironment(), patienceMs);
    const stop = AbortSignal.any([signal, patience.signal]);
    const hangUp = (): void => stream.close(constants.NGHTTP2_CANCEL);
    stop.addEventListener("abort", hangUp);
    try {
      upload(stream, request).catch(hangUp);
      const answer = Promise.withResolvers<void>();
      hearAnswer(stream, session, {
        message(message) {
          patience.renew();
          received(message);
          return true;
        },
        over: (error) => (error === undefined ? answer.resolve() : answer.reject(error)),
      });
      await answer.promise;
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
