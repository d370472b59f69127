/**
 * Servers of others that hand their requests to us: plain `node:http`, and Hono on Node, which gives each as a `Request`.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { mountable } from "../../src/transport/node/mountable.ts";
import type { PortOptions } from "../../src/transport/node/port.ts";
import type { OpenPort } from "./http-rig.ts";

export function mountedIn(framework: "node" | "hono"): (options: PortOptions) => Promise<OpenPort> {
  return async ({ handle, onBug = () => undefined }) => {
    const mounted = mountable({ handle, onBug });
    const hono = new Hono().all("/*", (context) => mounted.fetch(context.req.raw, context.env));
    const server = framework === "node" ? createServer(mounted.listener) : honoServer(hono);
    return { port: await listening(server), close: () => closed(server) };
  };
}

export function honoServer({ fetch }: Hono): Server {
  const listener = getRequestListener(fetch);
  return createServer((request, response) => void listener(request, response));
}

export async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it has no address");
  return address.port;
}

export async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
}
