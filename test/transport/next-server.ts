/**
 * Calls a route handler as Next does in its Node runtime, which is too large to install for tests (`NextRequestAdapter`, `pipeToNodeResponse` of Next 16).
 *
 * The handler gets a subclass of `Request` whose body is the request's stream and whose signal fires when the connection is gone. The response is piped
 * into the connection with backpressure; when the connection is gone, the body is cancelled.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Readable } from "node:stream";

type Handler = (request: Request) => Response | Promise<Response>;

class NextLikeRequest extends Request {
  readonly cookies: ReadonlyMap<string, string> = new Map();
}

class ResponseAborted extends Error {
  override readonly name = "ResponseAborted";
}

export function nextServer(handler: Handler): Server {
  return createServer((incoming, outgoing) => void answer(handler, incoming, outgoing));
}

async function answer(handler: Handler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) gone.abort(new ResponseAborted());
  });
  const { method = "GET", headers, url = "/" } = incoming;
  const own = new Headers({ "x-forwarded-host": headers.host ?? "", "x-forwarded-proto": "http" });
  for (const [name, value] of Object.entries(headers))
    for (const one of [value ?? []].flat()) own.append(name, one);
  const hasBody = method !== "GET" && method !== "HEAD";
  const init = { method, headers: own, signal: gone.signal, duplex: "half" as const };
  const body = hasBody ? { body: Readable.toWeb(incoming) } : {};
  const request = new NextLikeRequest(`http://${headers.host}${url}`, { ...init, ...body });
  const response = await handler(request);
  outgoing.statusCode = response.status;
  for (const [name, value] of response.headers) outgoing.appendHeader(name, value);
  if (response.body === null || method === "HEAD") {
    outgoing.end();
    return;
  }
  await response.body.pipeTo(writerOf(outgoing), { signal: gone.signal }).catch((error: unknown) => {
    outgoing.destroy();
    if (!gone.signal.aborted) throw error;
  });
}

function writerOf(outgoing: ServerResponse): WritableStream<Uint8Array> {
  return new WritableStream({
    start: () => outgoing.flushHeaders(),
    write: async (piece) => {
      if (!outgoing.write(piece)) await Promise.race([once(outgoing, "drain"), once(outgoing, "close")]);
    },
    abort: () => void outgoing.destroy(),
    close: async () => {
      outgoing.end();
      await once(outgoing, "finish");
    },
  });
}
