/**
 * The public face of the transport layer: what a transport is, and the one that needs no network.
 */
export { type Environment, systemEnvironment } from "./environment.ts";
export {
  type Direction,
  type MemoryConnection,
  memoryTransport,
  type MemoryTransport,
  type MemoryTransportOptions,
} from "./memory.ts";
export type {
  Accept,
  AcceptedMeta,
  ClientMeta,
  Connect,
  ConnectionMeta,
  Handler,
  Wire,
} from "./transport.ts";
