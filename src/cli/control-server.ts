/**
 * How commands on the same machine speak to a running server: `holdfast keys` asks the process that
 * owns the database instead of opening it a second time, `holdfast chat` asks where it listens, and a `holdfast serve` asks a
 * server that a chat has started to make room.
 *
 * A listener of its own, on loopback, with a port and a token that are new at every start and stand in a
 * 0600 file in the data directory. So only who may read that directory can make API keys; whoever holds
 * an API key can not, and nothing of it is on the port that the world sees. The same on every
 * system, where sockets in the file system are not.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import { CONTROL_FILE, readFileIfThere, writeSecretFile } from "../node/data-dir.ts";
import { type ApiKeyLimits, readLimits } from "../server/api-key-limits.ts";
import type { KeyAdmin } from "../node/key-admin.ts";

export interface Control {
  close(): Promise<void>;
}

/** What a server tells of itself. */
export interface ServerAbout {
  readonly url: string;
  readonly pid: number;
  /** A chat has started it in the background: it ends by itself, and makes room for a server that a person starts. */
  readonly endsWhenIdle: boolean;
  readonly models: readonly { readonly id: string; readonly isDefault: boolean }[];
  /** Its providers that do not answer, and why. */
  readonly troubles: readonly string[];
}

/** An open session of the gateway, without what was said in it. */
export interface SessionInfo {
  readonly streamId: string;
  readonly principal: string;
  readonly model: string;
  readonly state: string;
  /** Tool calls that it waits for. */
  readonly pending: number;
  readonly updatedMs: number;
}

/** What can be asked. */
export interface ControlAnswers {
  readonly keys: KeyAdmin;
  readonly about: () => ServerAbout;
  readonly sessions: () => readonly SessionInfo[];
  /** Stops the server, in order, for another that starts; false when a person has started it, who alone stops it. */
  readonly makeRoom: () => boolean;
}

/** A label, a principal and a hundred names of models fit. */
const BODY_BYTES_MAX = 64 * 1024;
const REQUEST_TIMEOUT_MS = 5_000;

export async function openControl(dataDir: string, answers: ControlAnswers): Promise<Control> {
  const token = randomBytes(32).toString("base64url");
  const path = join(dataDir, CONTROL_FILE);
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    void respond(request, response, token, answers);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: "127.0.0.1", port: 0 }, resolve);
  });
  // The server itself keeps the process alive; this must not.
  server.unref();
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const about = answers.about();
  const file = JSON.stringify({
    url: `http://127.0.0.1:${port}`,
    token,
    pid: about.pid,
    server: about.url,
  });
  writeSecretFile(path, `${file}\n`);
  return {
    close: async () => {
      // Another server may have come meanwhile: its file is not ours to remove.
      if (readFileIfThere(path)?.trim() === file) rmSync(path, { force: true });
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  token: string,
  answers: ControlAnswers,
): Promise<void> {
  try {
    if (!isLocal(request) || !hasToken(request, token)) {
      request.resume();
      send(response, 401, { error: "unauthenticated" });
      return;
    }
    send(response, 200, await answer(`${request.method} ${request.url}`, await readBody(request), answers));
  } catch (error) {
    const isOurs = error instanceof HoldfastError;
    const code = isOurs ? error.code : "internal";
    send(response, 400, { error: code, message: isOurs ? error.message : "the server failed" });
  }
}

/** A web page can reach loopback too, but it cannot leave its Origin behind, nor the name that it came by (E7). */
function isLocal({ headers, socket }: IncomingMessage): boolean {
  return headers.origin === undefined && headers.host === `127.0.0.1:${socket.localPort}`;
}

function hasToken(request: IncomingMessage, token: string): boolean {
  const hash = (text: string): Uint8Array => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(request.headers.authorization ?? ""), hash(`Bearer ${token}`));
}

async function answer(
  route: string,
  body: Readonly<Record<string, unknown>>,
  { keys, about, sessions, makeRoom }: ControlAnswers,
): Promise<unknown> {
  const text = (name: string): string => {
    const value = body[name];
    if (typeof value === "string") return value;
    throw new HoldfastError("invalid_frame", `${name} is text`);
  };
  switch (route) {
    case "GET /server":
      return about();
    case "GET /sessions":
      return { sessions: sessions() };
    case "POST /make-room":
      return { stops: makeRoom() };
    case "GET /keys":
      return { keys: await keys.list() };
    case "POST /keys":
      return { key: await keys.create(text("principal"), text("label"), limitsIn(body)) };
    case "POST /keys/revoke":
      return { revoked: await keys.revoke(text("id")) };
    default:
      throw new HoldfastError(
        "invalid_frame",
        "the server is of another version and does not know this request",
      );
  }
}

/** A limit that is not understood must not become no limit. */
function limitsIn({ limits }: Readonly<Record<string, unknown>>): ApiKeyLimits {
  const read = limits === undefined ? {} : readLimits(limits);
  if (read !== undefined) return read;
  throw new HoldfastError("invalid_frame", "the limits of an API key are not as this server knows them");
}

async function readBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  let text = "";
  request.setEncoding("utf8");
  for await (const piece of request) {
    text += String(piece);
    if (text.length > BODY_BYTES_MAX) throw new HoldfastError("too_large", "the request is too large");
  }
  if (text === "") return {};
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json", connection: "close" });
  response.end(JSON.stringify(body));
}
