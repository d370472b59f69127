/** Hosts streams: give it a store, an application and a transport. */
export type { Application, ApplicationStream, ClientInput, PastEvent } from "./application.ts";
export { createServer, type Server, type ServerOptions } from "./server.ts";
