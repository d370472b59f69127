/** The client for browsers. */
export * from "../public.ts";
export { HoldfastError } from "../../protocol/errors.ts";
export { BrowserClient, type JoinedStream } from "./browser-client.ts";
export { toolRunner } from "../tool-runner.ts";
export { openClient } from "./open-client.ts";
export type { BrowserClientOptions } from "./options.ts";
export { storesOf } from "./stores-of.ts";
export { SharedConnection, type SharedConnectionOptions } from "./shared-connection.ts";
