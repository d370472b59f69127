/**
 * Servers of others that hand their requests to us: plain `node:http`, and Hono and Next on Node, which give each as a `Request`.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { mountable } from "../../src/transport/node/mountable.ts";
import type { PortOptions } from "../../src/transport/node/port.ts";
import type { OpenPort } from "./http-rig.ts";
import { nextServer } from "./next-server.ts";

type Mounted = ReturnType<typeof mountable>;

const SERVERS = {
  node: ({ listener }: Mounted) => createServer(listener),
  hono: ({ fetch }: Mounted) =>
    honoServer(new Hono().all("/*", (context) => fetch(context.req.raw, context.env))),
  next: ({ fetch }: Mounted) => nextServer((request) => fetch(request)),
};

export function mountedIn(framework: keyof typeof SERVERS): (options: PortOptions) => Promise<OpenPort> {
  return async ({ handle, onBug = () => undefined }) => {
    const server = SERVERS[framework](mountable({ handle, onBug }));
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
