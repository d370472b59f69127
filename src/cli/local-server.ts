/**
 * The server of a data directory, for commands that need one: the one that runs, or one started in the background.
 *
 * A server that a command starts is no child of it: it outlives the command, so that a turn under way continues when the
 * terminal is closed, and it ends by itself when no command needs it. It takes the port of the server before it, if it can, so
 * that clients which lost that server find this one. Of two commands that want a server at the same time, one starts it and the
 * other waits for it.
 */
import { spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tryLock } from "../client-node/presence.ts";
import type { FileLock } from "../store/sqlite/lock.ts";
import { askServer, findServer, type ServerSeen } from "./control-client.ts";
import type { ServerAbout } from "./control-messages.ts";
import { makeDataDir, readFileIfThere, START_LOCK_FILE, writeSecretFile } from "../node/data-dir.ts";
import { failure } from "../node/failures.ts";

export interface LocalServerOptions {
  readonly dataDir: string;
  /** The config file to hand on, if one was named. */
  readonly config: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Called before a server is started, which takes a moment, with what was found of the one before. */
  readonly onStart: (seen: ServerSeen) => void;
  /** What people should know about the data directory. */
  readonly onNotice: (notice: string) => void;
}

/** How long a server in the background stays when no command needs it. */
export const IDLE_SECONDS = 120;
const LOG_FILE = "serve.log";
const PORT_FILE = "port";
const START_MS_MAX = 20_000;
const POLL_MS = 40;
const LOG_LINES = 15;
/** Until then a person does not wonder. */
const NOTE_MS = 1_000;

/** The server that runs on the data directory, started if there is none. */
export async function ensureServer(options: LocalServerOptions): Promise<ServerAbout> {
  const { dataDir } = options;
  // Before anything in it is believed: another user's directory could name another user's server.
  makeDataDir(dataDir, options.onNotice);
  const turn = await whenOurs(options);
  if ("about" in turn) return turn.about;
  try {
    options.onStart(turn.seen);
    return await startOne(options, usualPort(dataDir, turn.seen));
  } finally {
    turn.lock.release();
  }
}

type Turn = { readonly about: ServerAbout } | { readonly lock: FileLock; readonly seen: ServerSeen };

/** The lock of starting, or the server that runs: another process may have started it meanwhile. */
async function whenOurs({ dataDir, onNotice }: LocalServerOptions): Promise<Turn> {
  const running = await askServer(dataDir);
  if (running !== undefined) return { about: running };
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const lock = tryLock(join(dataDir, START_LOCK_FILE));
    const seen = await findServer(dataDir);
    if (seen.kind !== "running" && lock !== undefined) return { lock, seen };
    lock?.release();
    if (seen.kind === "running") return { about: seen.about };
    if (waitedMs === NOTE_MS) onNotice("waiting for another process that starts a server here ...");
    await sleep(POLL_MS);
  }
}

async function startOne(options: LocalServerOptions, usual: number): Promise<ServerAbout> {
  const started = await start(options, usual);
  if ("url" in started) return remember(started, options.dataDir);
  // Its usual port may be another program's by now.
  const again = usual === 0 ? started : await start(options, 0);
  if ("url" in again) return remember(again, options.dataDir);
  throw failure(`the server could not be started:\n${again.log}`);
}

function remember(about: ServerAbout, dataDir: string): ServerAbout {
  writeSecretFile(join(dataDir, PORT_FILE), `${new URL(about.url).port}\n`);
  return about;
}

/** The port of the server that died here, else the one that a server in the background had last; 0 = any. */
function usualPort(dataDir: string, seen: ServerSeen): number {
  if (seen.kind === "died" && URL.canParse(seen.url)) return Number(new URL(seen.url).port);
  const text = readFileIfThere(join(dataDir, PORT_FILE))?.trim() ?? "";
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : 0;
}

async function start(
  { dataDir, config, env, cwd }: LocalServerOptions,
  port: number,
): Promise<ServerAbout | { readonly log: string }> {
  const logPath = join(dataDir, LOG_FILE);
  const log = openSync(logPath, "a", 0o600);
  const logStart = fstatSync(log).size;
  const flags = ["--port", String(port), "--data-dir", dataDir, "--exit-when-idle", String(IDLE_SECONDS)];
  const main = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "main.ts" : "main.js");
  const child = spawn(
    process.execPath,
    [main, "serve", ...flags, ...(config === undefined ? [] : ["--config", resolve(cwd, config)])],
    // Not in the workspace: a config file there must not become the server's.
    { cwd: dataDir, env: { ...env }, detached: true, stdio: ["ignore", log, log] },
  );
  closeSync(log);
  const ended = Promise.withResolvers<"ended">();
  child.once("exit", () => ended.resolve("ended"));
  child.once("error", () => ended.resolve("ended"));
  child.unref();
  const deadline = Date.now() + START_MS_MAX;
  for (;;) {
    const isEnded = (await Promise.race([ended.promise, sleep(POLL_MS)])) === "ended";
    const about = await askServer(dataDir);
    if (about !== undefined) return about;
    if (isEnded) return { log: tail(logPath, logStart) };
    if (Date.now() > deadline)
      return { log: `it does not answer; its log is ${logPath}\n${tail(logPath, logStart)}` };
  }
}

function tail(path: string, from: number): string {
  const lines = readFileSync(path).subarray(from).toString("utf8").trim().split("\n");
  return lines.slice(-LOG_LINES).join("\n");
}
