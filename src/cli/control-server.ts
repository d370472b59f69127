/**
 * How commands on the same machine speak to a running server: `holdfast keys` asks the process that
 * owns the database instead of opening it a second time, `holdfast chat` asks where it listens, and a `holdfast serve` asks a
 * server that a chat has started to make room.
 *
 * A listener of its own, on loopback, with a port and a token that are new at every start and stand in a
 * 0600 file in the data directory. So only a user who may read that directory can make API keys; the holder of
 * an API key cannot, and nothing of it is on the port that the world sees. The same on every
 * system, where sockets in the file system are not.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { rmSync } from "node:fs";
import { join } from "node:path";
import * as z from "../protocol/rules.ts";
import { CONTROL_FILE, readFileIfThere, writeSecretFile } from "../node/data-dir.ts";
import type { Forgotten, ForgetWish } from "../node/forgetting.ts";
import type { KeyAdmin } from "../node/key-admin.ts";
import { checked } from "../protocol/checked.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "../protocol/fields.ts";
import { LIMITS } from "../server/api-key-limits.ts";
import type { ControlFile, ServerAbout, SessionInfo } from "./control-messages.ts";

/** What can be asked. */
interface ControlAnswers {
  readonly keys: KeyAdmin;
  readonly about: () => ServerAbout;
  readonly sessions: () => readonly SessionInfo[];
  /** A fresh link to the page. */
  readonly link: () => string;
  readonly forget: (wish: ForgetWish) => Promise<Forgotten>;
  /** Stops the server, in order, for another that starts; false when a person has started it, who alone stops it. */
  readonly makeRoom: () => boolean;
}

/** A label, a principal and a hundred names of models fit. */
const BODY_BYTES_MAX = 64 * 1024;
const REQUEST_TIMEOUT_MS = 5_000;

export async function openControl(dataDir: string, answers: ControlAnswers) {
  const token = randomBytes(32).toString("base64url");
  const path = join(dataDir, CONTROL_FILE);
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    void respond(request, response, token, answers);
  });
  server.listen({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  // The server itself keeps the process alive; this must not.
  server.unref();
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const { pid, url } = answers.about();
  const control: ControlFile = { url: `http://127.0.0.1:${port}`, token, pid, server: url };
  const file = JSON.stringify(control);
  writeSecretFile(path, `${file}\n`);
  return {
    close: async () => {
      // Another server may have written its own file meanwhile.
      if (readFileIfThere(path)?.trim() === file) rmSync(path, { force: true });
      server.closeAllConnections();
      await once(server.close(), "close");
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

/** A limit that is not understood must not become no limit. */
const NEW_KEY = z.object({ principal: z.string(), label: z.string(), limits: LIMITS });
const REVOKED_KEY = z.object({ id: z.string() });
const FORGOTTEN = z.object({ principal: z.string(), isDryRun: z.boolean(), keepsApiKeys: z.boolean() });

async function answer(
  route: string,
  body: unknown,
  { keys, about, sessions, link, makeRoom, forget }: ControlAnswers,
): Promise<unknown> {
  switch (route) {
    case "GET /server":
      return about();
    case "GET /sessions":
      return { sessions: sessions() };
    case "POST /link":
      return { link: link() };
    case "POST /make-room":
      return { stops: makeRoom() };
    case "GET /keys":
      return { keys: await keys.list() };
    case "POST /keys": {
      const { principal, label, limits } = checked(NEW_KEY, body);
      return { key: await keys.create(principal, label, limits) };
    }
    case "POST /keys/revoke":
      return { revoked: await keys.revoke(checked(REVOKED_KEY, body).id) };
    case "POST /forget":
      return forget(checked(FORGOTTEN, body));
    default:
      throw new HoldfastError(
        "invalid_frame",
        "the server is of another version and does not know this request",
      );
  }
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = "";
  request.setEncoding("utf8");
  for await (const piece of request) {
    text += String(piece);
    if (text.length > BODY_BYTES_MAX) throw new HoldfastError("too_large", "the request is too large");
  }
  return parsedJson(text);
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json", connection: "close" });
  response.end(JSON.stringify(body));
}
