/**
 * `BlobService` by `fetch`.
 *
 * A browser cannot stream a request over HTTP/1.1, so an upload is one body; the server answers only after its last byte.
 */
import { blobCallsOver } from "./connect/blob-call.ts";
import { callHeaders, SERVER_FRAME_BYTES_MAX } from "./connect/client-call.ts";
import { envelopes } from "./connect/envelopes.ts";
import { streamingCall } from "./connect/fetch-calls.ts";
import type { FetchContext } from "./fetch-transport.ts";
import { patienceOf } from "./patience.ts";
import type { BlobCalls } from "./transport.ts";

/** `closing` is asked at each call: it fires when the transport is closed, which can be used again afterwards. */
export function fetchBlobs(context: FetchContext, blobUrl: string, closing: () => AbortSignal): BlobCalls {
  return blobCallsOver(async ({ method, meta, messages, patienceMs, signal }, received) => {
    const patience = patienceOf(context.environment, patienceMs);
    const stopped = [signal, closing(), patience.signal];
    const call = {
      fetch: context.fetch,
      url: `${blobUrl}${method}`,
      headers: { ...context.headers, ...callHeaders(meta, undefined) },
      signal: AbortSignal.any(stopped),
    };
    try {
      await streamingCall(call, envelopes([...messages]), SERVER_FRAME_BYTES_MAX, {
        opened: () => patience.renew(),
        message: (message) => {
          patience.renew();
          received(message);
          return true;
        },
      });
    } catch (cause) {
      // Why it was stopped says more than that it broke.
      for (const { aborted, reason } of stopped) if (aborted) throw reason;
      throw cause;
    } finally {
      patience.end();
    }
  });
}
