/**
 * The public face of the transport layer: what a transport is, the one that needs no network, and the one that
 * needs only `fetch`. Those that need Node are in `node/index.ts`.
 */
export { type Fetch, type FetchInit } from "./connect/fetch-calls.ts";
export { type Environment, systemEnvironment } from "./environment.ts";
export { fetchConnect, type FetchTransport, type FetchTransportOptions } from "./fetch-transport.ts";
export {
  type Direction,
  type MemoryConnection,
  memoryTransport,
  type MemoryTransport,
  type MemoryTransportOptions,
  type ServedBlobs,
} from "./memory.ts";
export type {
  Accept,
  AcceptedMeta,
  BlobCalls,
  ClientMeta,
  Connect,
  ConnectionMeta,
  Handler,
  Wire,
} from "./transport.ts";
