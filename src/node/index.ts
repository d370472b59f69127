/**
 * Holdfast for Node, put together: `serve` runs a whole server with its gateway in this process, `connect` opens a client of one.
 *
 * `holdfast serve` and `holdfast chat` are made of these two. The parts are in the other entry points.
 */
export { HoldfastError, type ErrorCode, type Remedy } from "../protocol/errors.ts";
export { openClient as connect, type NodeClient } from "../client-node/open-client.ts";
export type { NodeClientOptions as ConnectOptions } from "../client-node/options.ts";
export type { KeyNews } from "./first-key.ts";
export type { ApiKeyInfo as KeyInfo } from "../server/api-key-record.ts";
export type { CreatedKey, KeyAdmin } from "./key-admin.ts";
export type { Machine } from "./machine.ts";
export { type RunningServer, serve } from "./serve.ts";
export { SERVE_DEFAULTS, type ServeOptions } from "./serve-options.ts";
