/** A server of streams on a port: `createServer`, and HTTP around it. */
export { type HttpOptions, type HttpServer, serveHttp } from "./serve.ts";
export type { Authenticate } from "./sign-in.ts";
