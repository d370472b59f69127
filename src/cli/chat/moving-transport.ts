/**
 * A transport to a server that may move: every new call goes to where the server is at that moment.
 *
 * Calls under way stay where they are, and break there when the server is gone; the stream then dials again, to the new address.
 */
import { http2Connect, type Http2Transport } from "../../transport/node/index.ts";

/** `url` is asked at every call. */
export function movingTransport(url: () => string): Http2Transport {
  const transports = new Map<string, Http2Transport>();
  const current = (): Http2Transport => {
    const at = url();
    const transport = transports.get(at) ?? http2Connect({ url: at });
    transports.set(at, transport);
    return transport;
  };
  return {
    connect: (meta, handler) => current().connect(meta, handler),
    blobs: {
      put: (...call) => current().blobs.put(...call),
      get: (...call) => current().blobs.get(...call),
      forget: (...call) => current().blobs.forget(...call),
    },
    close: () => {
      for (const transport of transports.values()) transport.close();
    },
  };
}
