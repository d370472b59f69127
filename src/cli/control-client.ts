/**
 * The commands' half of `control-server.ts`.
 *
 * A server that was killed leaves its file behind. Then the connection is refused, or another program answers that does
 * not know the token: both mean that no server runs, and the database's lock has the last word on it.
 */
import { join } from "node:path";
import { HoldfastError, isErrorCode } from "../protocol/errors.ts";
import { readLimits } from "../server/api-key-limits.ts";
import { CONTROL_FILE, readFileIfThere } from "../node/data-dir.ts";
import { failure } from "../node/failures.ts";
import type { ServerAbout, SessionInfo } from "./control-server.ts";
import type { CreatedKey, KeyAdmin, KeyInfo } from "../node/key-admin.ts";

const TIMEOUT_MS = 5_000;

type Fields = Readonly<Record<string, unknown>>;

type Ask = (method: string, path: string, body?: object) => Promise<Fields | undefined>;

/** Undefined when no server runs on this data directory. */
export async function reachServer(dataDir: string): Promise<KeyAdmin | undefined> {
  const ask = askOf(dataDir);
  if (ask === undefined || (await ask("GET", "/keys")) === undefined) return undefined;
  return {
    list: async () => {
      const keys = (await answered(ask("GET", "/keys")))["keys"];
      return Array.isArray(keys) ? keys.map(infoOf) : unexpected();
    },
    create: async (principal, label, limits) => {
      const { key } = await answered(ask("POST", "/keys", { principal, label, limits }));
      return createdOf(key);
    },
    revoke: async (id) => (await answered(ask("POST", "/keys/revoke", { id })))["revoked"] === true,
  };
}

/** What a look at a data directory's server finds. */
export type ServerSeen =
  | { readonly kind: "running"; readonly about: ServerAbout }
  /** It takes connections and does not answer: it hangs, or its process is suspended. */
  | { readonly kind: "silent"; readonly url: string; readonly pid: number }
  /** It ended without removing its file: it was killed, or the machine went down. */
  | { readonly kind: "died"; readonly url: string; readonly pid: number }
  /** It stopped in order, or there never was one. */
  | { readonly kind: "none" };

export async function findServer(dataDir: string): Promise<ServerSeen> {
  const control = controlOf(dataDir);
  if (control === undefined) return { kind: "none" };
  const { server: url, pid } = control;
  const answer = await send(control, "GET", "/server", undefined);
  if (answer.kind === "answered") return { kind: "running", about: aboutOf(answer.fields) };
  return { kind: answer.kind === "silent" ? "silent" : "died", url, pid };
}

/** Where the server that runs on this data directory listens; undefined when none runs. */
export async function askServer(dataDir: string): Promise<ServerAbout | undefined> {
  const seen = await findServer(dataDir);
  if (seen.kind === "silent") throw silent(seen.pid);
  return seen.kind === "running" ? seen.about : undefined;
}

/** Asks a server that a chat has started to stop; true when it does. */
export async function askForRoom(dataDir: string): Promise<boolean> {
  const answer = await askOf(dataDir)?.("POST", "/make-room");
  return answer?.["stops"] === true;
}

/** The open sessions of its gateway; undefined when none runs. */
export async function askSessions(dataDir: string): Promise<readonly SessionInfo[] | undefined> {
  const answer = await askOf(dataDir)?.("GET", "/sessions");
  if (answer === undefined) return undefined;
  const { sessions } = answer;
  return Array.isArray(sessions) ? sessions.map(sessionOf) : unexpected();
}

export type { SessionInfo };

function sessionOf(value: unknown): SessionInfo {
  const fields: Fields = typeof value === "object" && value !== null ? { ...value } : {};
  const { streamId, principal, model, state, pending, updatedMs } = fields;
  const isWhole =
    typeof streamId === "string" &&
    typeof principal === "string" &&
    typeof model === "string" &&
    typeof state === "string" &&
    typeof pending === "number" &&
    typeof updatedMs === "number";
  return isWhole ? { streamId, principal, model, state, pending, updatedMs } : unexpected();
}

/** The file of a server that runs, or of one that was killed. */
interface ControlFile {
  readonly control: string;
  readonly token: string;
  readonly pid: number;
  readonly server: string;
}

function controlOf(dataDir: string): ControlFile | undefined {
  const { url, token, pid, server } = fieldsOf(readFileIfThere(join(dataDir, CONTROL_FILE)) ?? "");
  if (typeof url !== "string" || typeof token !== "string" || typeof pid !== "number") return undefined;
  return { control: url, token, pid, server: typeof server === "string" ? server : "" };
}

function askOf(dataDir: string): Ask | undefined {
  const control = controlOf(dataDir);
  if (control === undefined) return undefined;
  return async (method, path, body) => {
    const answer = await send(control, method, path, body);
    if (answer.kind === "silent") throw silent(control.pid);
    return answer.kind === "answered" ? answer.fields : undefined;
  };
}

type Answer = { readonly kind: "answered"; readonly fields: Fields } | { readonly kind: "silent" | "gone" };

async function send(
  { control, token }: ControlFile,
  method: string,
  path: string,
  body: object | undefined,
): Promise<Answer> {
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${control}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    return { kind: error instanceof Error && error.name === "TimeoutError" ? "silent" : "gone" };
  }
  const fields = fieldsOf(text);
  if (status === 200) return { kind: "answered", fields };
  const { error, message } = fields;
  if (error === "unauthenticated" || typeof error !== "string" || !isErrorCode(error))
    return { kind: "gone" };
  throw new HoldfastError(error, typeof message === "string" ? message : "the server refused");
}

function silent(pid: number): HoldfastError {
  return failure(
    `the server that runs on this data directory (process ${pid}) does not answer; retry, or stop it`,
  );
}

async function answered(answer: Promise<Fields | undefined>): Promise<Fields> {
  const fields = await answer;
  if (fields === undefined) throw failure("the server has just stopped; run the command again");
  return fields;
}

function fieldsOf(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

function aboutOf({ url, pid, endsWhenIdle, models, troubles }: Fields): ServerAbout {
  if (typeof url !== "string" || typeof pid !== "number" || !Array.isArray(models)) return unexpected();
  return {
    url,
    pid,
    endsWhenIdle: endsWhenIdle === true,
    troubles: Array.isArray(troubles) ? troubles.map(String) : [],
    models: models.map((model: unknown) => {
      const { id, isDefault }: Fields = typeof model === "object" && model !== null ? { ...model } : {};
      return typeof id === "string" ? { id, isDefault: isDefault === true } : unexpected();
    }),
  };
}

function infoOf(value: unknown): KeyInfo {
  const fields: Fields = typeof value === "object" && value !== null ? { ...value } : {};
  const { id, principal, label, createdMs, lastUsedMs, revokedMs } = fields;
  const limits = fields["limits"] === undefined ? undefined : (readLimits(fields["limits"]) ?? unexpected());
  const isWhole =
    typeof id === "string" &&
    typeof principal === "string" &&
    typeof label === "string" &&
    typeof createdMs === "number" &&
    isTime(lastUsedMs) &&
    isTime(revokedMs);
  return isWhole ? { id, principal, label, createdMs, lastUsedMs, revokedMs, limits } : unexpected();
}

function createdOf(value: unknown): CreatedKey {
  const info = infoOf(value);
  const apiKey = typeof value === "object" && value !== null && "apiKey" in value ? value.apiKey : undefined;
  return typeof apiKey === "string" ? { ...info, apiKey } : unexpected();
}

function isTime(value: unknown): value is number | undefined {
  return value === undefined || typeof value === "number";
}

function unexpected(): never {
  throw failure("the server answered something unexpected; it may be of another version");
}
