/**
 * A whole server on a port, of production parts: memory log, Node sealing, HTTP edge, real sockets.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, type IncomingMessage, request as http1Request } from "node:http";
import {
  connect as http2Connect,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from "node:http2";
import { connect as tcpConnect, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { pino } from "pino";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import {
  type Application,
  countedLog,
  createServer,
  newServerCounters,
  type Server,
  type ServerOptions,
} from "../../../src/server/index.ts";
import { type HttpOptions, type HttpServer, serveHttp } from "../../../src/server/http/index.ts";
import {
  type BlobStore,
  memoryBlobStore,
  MemoryLog,
  openLogStreamStore,
  type StreamStore,
} from "../../../src/store/index.ts";

export const ALICE_KEY = "hf_alice";
export const BOB_KEY = "hf_bob";
const PRINCIPALS: ReadonlyMap<string | undefined, string> = new Map([
  [ALICE_KEY, "alice"],
  [BOB_KEY, "bob"],
]);

/** Says every chunk back, once over all restarts, and ends when the client closes. */
export const echo: Application = async (stream) => {
  let answered = 0;
  for await (const past of stream.past()) if (past.eventId > 0) answered++;
  for await (const input of stream.inputs) {
    if (input.kind === "chunk" && --answered < 0) stream.emit(input.body).catch(() => undefined);
    else if (input.kind === "close") break;
  }
  await stream.end(new Uint8Array());
};

export interface HttpRig {
  readonly http: HttpServer;
  readonly server: Server;
  readonly store: StreamStore;
  readonly log: MemoryLog;
  readonly blobs: BlobStore;
  /** Every line of the log, as it was written. */
  readonly logLines: string[];
  readonly bugs: unknown[];
}

export interface RigOptions {
  readonly application?: Application;
  readonly server?: Partial<ServerOptions>;
  readonly http?: Partial<HttpOptions>;
  readonly log?: MemoryLog;
}

/** Ends with the test, which fails for any bug that the server has met. */
export async function startHttp(t: TestContext, options: RigOptions = {}): Promise<HttpRig> {
  const now = (): number => Date.now();
  const counters = newServerCounters();
  const log = options.log ?? new MemoryLog({ durability: "fsync" });
  const store = await openLogStreamStore(countedLog(log, counters), { now });
  const blobs = memoryBlobStore({ now });
  const bugs: unknown[] = [];
  const logLines: string[] = [];
  const server = createServer({
    store,
    blobs,
    counters,
    sealing: nodeSealing(),
    application: options.application ?? echo,
    onBug: (bug) => bugs.push(bug),
    ...options.server,
  });
  const logger = pino({ level: "trace" }, { write: (line: string) => void logLines.push(line) });
  const http = await serveHttp({ server, authenticate, logger, ...options.http });
  t.after(async () => {
    await http.close({ drainMs: 100 });
    assert.deepEqual(bugs, []);
    assert.deepEqual(
      logLines.filter((line) => line.includes('"bug"')),
      [],
    );
  });
  return { http, server, store, log, blobs, logLines, bugs };
}

export async function authenticate(apiKey: string | undefined): Promise<{ principal: string }> {
  const principal = PRINCIPALS.get(apiKey);
  if (principal === undefined) throw new HoldfastError("unauthenticated", "no valid API key; bring one");
  return { principal };
}

export interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

export type Version = 1 | 2;
export const VERSIONS: readonly Version[] = [1, 2];

/** One request on a connection of its own; `host` may be any. */
export function ask(rig: HttpRig, version: Version, asked: Asked): Promise<Answer> {
  return version === 1 ? askHttp1(rig.http, asked) : askHttp2(rig.http, asked);
}

async function askHttp1({ port }: HttpServer, asked: Asked): Promise<Answer> {
  const { method = "GET", path, headers = {}, body } = asked;
  // Kept alive: a server may answer before it has read everything, and such a connection is not cut under the answer.
  const agent = new Agent({ keepAlive: true });
  try {
    const request = http1Request({ host: "127.0.0.1", port, method, path, headers, agent });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.on("response", resolve);
      request.on("error", reject);
    });
    request.end(body);
    const response = await answered;
    const { statusCode = 0 } = response;
    return { status: statusCode, headers: response.headers, body: await bodyOf(response) };
  } finally {
    agent.destroy();
  }
}

async function askHttp2({ port }: HttpServer, asked: Asked): Promise<Answer> {
  const { method = "GET", path, headers: given = {}, body } = asked;
  const { host, ...headers } = given;
  const session = http2Connect(`http://127.0.0.1:${port}`);
  try {
    const head: OutgoingHttpHeaders = { ...headers, ":method": method, ":path": path };
    if (host !== undefined) head[":authority"] = host;
    const stream = session.request(head, { endStream: false });
    const answered = new Promise<IncomingHttpHeaders & IncomingHttpStatusHeader>((resolve, reject) => {
      stream.on("response", resolve);
      stream.on("error", reject);
    });
    stream.end(body);
    const response = await answered;
    return { status: response[":status"] ?? 0, headers: response, body: await bodyOf(stream) };
  } finally {
    session.close();
  }
}

export async function bodyOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) if (Buffer.isBuffer(piece)) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** What a body or a line says, as a table. */
export function readJson(text: Buffer | string | undefined): Map<string, unknown> {
  const json: unknown = JSON.parse(String(text));
  assert.ok(typeof json === "object" && json !== null);
  return new Map<string, unknown>(Object.entries(json));
}

export function bearer(apiKey: string): Record<string, string> {
  return { authorization: `Bearer ${apiKey}` };
}

/** A bare connection, to say on it what no client would. */
export async function openSocket(t: TestContext, rig: HttpRig): Promise<Socket> {
  const socket = tcpConnect({ host: "127.0.0.1", port: rig.http.port, allowHalfOpen: true });
  socket.on("error", () => undefined);
  t.after(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

/** Everything that comes until the server hangs up, in whatever way: who writes at that moment sees an error. */
export async function readToEnd(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => pieces.push(piece));
  if (!socket.readableEnded && !socket.destroyed) {
    await Promise.race([once(socket, "end"), once(socket, "close")]).catch(() => undefined);
  }
  return Buffer.concat(pieces);
}

/** Asks again until it is so. */
export async function eventually(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const untilMs = performance.now() + 20_000;
  while (!(await isSo())) {
    assert.ok(performance.now() < untilMs, `still waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
