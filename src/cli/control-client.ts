/**
 * The commands' half of `control-server.ts`.
 *
 * A server that was killed leaves its file behind. Then the connection is refused, or another program has the port and answers
 * whatever it does: both mean that no server runs, and the database's lock has the last word on it.
 */
import { join } from "node:path";
import * as z from "../protocol/rules.ts";
import { CONTROL_FILE, readFileIfThere } from "../node/data-dir.ts";
import { failure } from "../node/failures.ts";
import type { Forgotten, ForgetWish } from "../node/forgetting.ts";
import type { KeyAdmin } from "../node/key-admin.ts";
import { HoldfastError, isErrorCode } from "../protocol/errors.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { API_KEY_INFO, API_KEY_INFO_FIELDS } from "../server/api-key-record.ts";
import {
  CONTROL,
  type ControlFile,
  PAGE_LINK,
  SERVER_ABOUT,
  type ServerAbout,
  SESSION_INFO,
} from "./control-messages.ts";

const TIMEOUT_MS = 5_000;

const KEYS = z.object({ keys: z.array(API_KEY_INFO) });
const CREATED = z.object({ key: z.object({ ...API_KEY_INFO_FIELDS, apiKey: z.string() }) });
const REVOKED = z.object({ revoked: z.boolean() });
const SESSIONS = z.object({ sessions: z.array(SESSION_INFO) });
const ROOM = z.object({ stops: z.boolean() });
const FORGOTTEN = z.object({
  streams: z.number(),
  blobs: z.number(),
  rows: z.number(),
  apiKeys: z.number(),
});
/** A large database is written anew. */
const FORGET_TIMEOUT_MS = 60 * 60_000;

/** Undefined when no server runs on this data directory. */
export async function reachServer(dataDir: string): Promise<KeyAdmin | undefined> {
  if ((await ask(dataDir, "GET", "/keys", KEYS)) === undefined) return undefined;
  return {
    list: async () => here(await ask(dataDir, "GET", "/keys", KEYS)).keys,
    create: async (principal, label, limits) =>
      here(await ask(dataDir, "POST", "/keys", CREATED, { principal, label, limits })).key,
    revoke: async (id) => here(await ask(dataDir, "POST", "/keys/revoke", REVOKED, { id })).revoked,
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
  const answer = await send(control, "GET", "/server");
  const about = understood(SERVER_ABOUT, answer);
  if (about !== undefined) return { kind: "running", about };
  return { kind: answer.kind === "silent" ? "silent" : "died", url, pid };
}

/** Where the server that runs on this data directory listens; undefined when none runs. */
export async function askServer(dataDir: string): Promise<ServerAbout | undefined> {
  return ask(dataDir, "GET", "/server", SERVER_ABOUT);
}

/** Asks a server that a chat has started to stop; true when it does. */
export async function askForRoom(dataDir: string): Promise<boolean> {
  return (await ask(dataDir, "POST", "/make-room", ROOM))?.stops === true;
}

/** Has the running server delete what it keeps of a principal. */
export async function askToForget(dataDir: string, wish: ForgetWish): Promise<Forgotten> {
  return here(await ask(dataDir, "POST", "/forget", FORGOTTEN, wish, FORGET_TIMEOUT_MS));
}

/** The open sessions of its gateway; undefined when none runs. */
export async function askSessions(dataDir: string) {
  return (await ask(dataDir, "GET", "/sessions", SESSIONS))?.sessions;
}

/** A fresh link to its page, which signs in one browser; empty when it has none to give, undefined when none runs. */
export async function askLink(dataDir: string): Promise<string | undefined> {
  return (await ask(dataDir, "POST", "/link", PAGE_LINK))?.link;
}

/** Of a server that runs, or of one that was killed. */
function controlOf(dataDir: string): ControlFile | undefined {
  return z.safeParse(CONTROL, parsedJson(readFileIfThere(join(dataDir, CONTROL_FILE)) ?? "")).data;
}

/** Undefined when no server runs. */
async function ask<Of extends z.Rule>(
  dataDir: string,
  method: string,
  path: string,
  schema: Of,
  body?: object,
  timeoutMs?: number,
): Promise<z.output<Of> | undefined> {
  const control = controlOf(dataDir);
  if (control === undefined) return undefined;
  const answer = await send(control, method, path, body, timeoutMs);
  if (answer.kind === "silent") {
    throw failure(
      `the server that runs on this data directory (process ${control.pid}) does not answer; retry, or stop it`,
    );
  }
  return understood(schema, answer);
}

type Answer = { readonly kind: "answered"; readonly body: unknown } | { readonly kind: "silent" | "gone" };

async function send(
  { url, token }: ControlFile,
  method: string,
  path: string,
  request?: object,
  timeoutMs = TIMEOUT_MS,
): Promise<Answer> {
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(timeoutMs),
      body: request === undefined ? null : JSON.stringify(request),
    });
    ({ status } = response);
    text = await response.text();
  } catch (error) {
    return { kind: error instanceof Error && error.name === "TimeoutError" ? "silent" : "gone" };
  }
  const body = parsedJson(text);
  if (status === 200) return { kind: "answered", body };
  const { error, message } = fieldsOf(body);
  if (error === "unauthenticated" || typeof error !== "string" || !isErrorCode(error))
    return { kind: "gone" };
  throw new HoldfastError(error, typeof message === "string" ? message : "the server refused");
}

function here<Value>(answer: Value | undefined): Value {
  if (answer === undefined) throw failure("the server has just stopped; run the command again");
  return answer;
}

/** Undefined for what no server of ours says. */
function understood<Of extends z.Rule>(schema: Of, answer: Answer): z.output<Of> | undefined {
  return answer.kind === "answered" ? z.safeParse(schema, answer.body).data : undefined;
}
