/** The client for browsers. */
export * from "../public.ts";
export { HoldfastError } from "../../protocol/errors.ts";
export { BrowserClient, type JoinedStream } from "./browser-client.ts";
export { openClient } from "./open-client.ts";
export type { BrowserClientOptions } from "./options.ts";
export { SharedConnection, type SharedConnectionOptions } from "./shared-connection.ts";
