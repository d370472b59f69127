/**
 * What stands between the page and the server of `holdfast demo --page`: it carries every request, and breaks things when the page asks it to.
 *
 * The server behind it is an ordinary one and has no such route. Only the page that came from here may ask: a request says its origin, and no other page can say this one.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, request as ask, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";

interface FrontOptions {
  /** Where the server listens at present. */
  readonly targetPort: () => number;
  /** What the page may ask for, by name: `POST /demo/kill`. */
  readonly acts: Readonly<Record<string, () => Promise<void>>>;
}

const ROUTE = "/demo/";
/** The page looks for it, to know where it is. */
const MARKED = '<html lang="en" data-demo>';

export async function openFront({ targetPort, acts }: FrontOptions) {
  const sockets = new Set<Socket>();
  let isSilent = false;
  const server = createServer((request, response) => {
    // What breaks here breaks for the one that asked.
    response.on("error", () => undefined);
    if (request.url?.startsWith(ROUTE) === true) act(request, response);
    else if (!isSilent) carry(request, response);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  function act(request: IncomingMessage, response: ServerResponse): void {
    const { host = "", origin = "" } = request.headers;
    const run = acts[request.url?.slice(ROUTE.length) ?? ""];
    const isOurs = origin === `http://${host}` && /^(?:127\.0\.0\.1|localhost):\d+$/.test(host);
    if (run === undefined || !isOurs || request.method !== "POST") {
      response.writeHead(404).end();
      return;
    }
    // It is answered first: what is asked for may take the connection away.
    response.writeHead(204, { connection: "close" }).end(() => void run().catch(() => undefined));
  }

  function carry(request: IncomingMessage, response: ServerResponse): void {
    const { method = "GET", url = "/", headers } = request;
    const isPage = url === "/" && method === "GET";
    const asked = ask({
      host: "127.0.0.1",
      port: targetPort(),
      method,
      path: url,
      headers: isPage ? { ...headers, "accept-encoding": "identity" } : headers,
    });
    const hangUp = (): void => void response.destroy();
    asked.on("error", hangUp);
    asked.on("response", (answer) => {
      answer.on("error", hangUp);
      if (isPage) void sendPage(answer, response).catch(hangUp);
      else {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        response.flushHeaders();
        answer.on("data", (bytes: Buffer) => {
          if (!isSilent) response.write(bytes);
        });
        answer.on("end", () => {
          if (!isSilent) response.end();
        });
      }
    });
    request.pipe(asked);
    response.on("close", () => asked.destroy());
  }

  return {
    get url(): string {
      const address = server.address();
      return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/`;
    },
    /** Every connection breaks; new ones are good. */
    cut(): void {
      for (const socket of sockets) socket.destroy();
    },
    /** No connection breaks, and no bytes arrive: what either side sends meanwhile is lost. Then every connection breaks. */
    async silence(ms: number): Promise<void> {
      isSilent = true;
      await new Promise((resolve) => setTimeout(resolve, ms));
      isSilent = false;
      this.cut();
    },
    async close(): Promise<void> {
      const closed = once(server, "close");
      server.close();
      this.cut();
      await closed;
    },
  };
}

async function sendPage(answer: IncomingMessage, response: ServerResponse): Promise<void> {
  const html = (await text(answer)).replace('<html lang="en">', MARKED);
  const { "content-length": _, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 502, headers).end(html);
}
