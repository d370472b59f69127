/** A server of streams on a port: `createServer`, and HTTP around it. */
export { type HttpOptions, type HttpServer, serveHttp } from "./serve.ts";
export type { FrontPage, PageFile } from "./front-page.ts";
export type { Mount, MountedCall, MountedGuest, MountedNews } from "./mount.ts";
export type { Authenticate, SignedIn } from "./sign-in.ts";
