/**
 * What the transport layer has for Node: the client over HTTP/2, and the server's half: a port and the calls of
 * `StreamService` on it.
 */
export {
  type BodyLimits,
  type Exchange,
  type ExchangeListener,
  readBody,
  type ResponseHeaders,
  respondWith,
} from "./exchange.ts";
export { http2Connect, type Http2ConnectOptions, type Http2Transport } from "./http2-client.ts";
export { openPort, type Port, type PortOptions } from "./port.ts";
export { PORT_DEFAULTS, type PortLimits } from "./port-limits.ts";
export { refuse } from "./refuse.ts";
export { type StreamEndpoints, streamEndpoints, type StreamEndpointsOptions } from "./stream-endpoints.ts";
