/**
 * The client for Node: everything of the client, with journals on disk, home keys and locks.
 */
export * from "../client/public.ts";
export { HoldfastError, type ErrorCode, type Remedy } from "../protocol/errors.ts";
export { type NodeClient, openClient, storesOf } from "./open-client.ts";
export { DEFAULT_URL, type NodeClientOptions, type TransportName } from "./options.ts";
export type { ScopeName } from "./scope.ts";
