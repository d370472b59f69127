/**
 * The life of a line: where it listens, how it is found again, and how it is started.
 *
 * One line for each data directory: a server that starts it holds the directory's lock of the line, and looks first whether there is one. It listens in a
 * runtime directory that is closed to other users, since the path of a socket ends at 107 bytes and a data directory may be anywhere. It is
 * started detached, in a session of its own, so that it outlives the server, its terminal and its process group.
 *
 * Invariant: no secret is in its arguments or its environment; what it must know comes by a file descriptor (E4).
 */
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { lstatSync, mkdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { asking, LineClient, type LinePlace } from "../agent/models/line/line-client.ts";
import {
  fieldsIn,
  LINE_DEFAULTS,
  LINE_VERSION,
  type LineSettings,
  proofOf,
} from "../agent/models/line/line-wire.ts";
import { tryLock } from "../client-node/presence.ts";
import { readFileIfThere, writeSecretFile } from "./data-dir.ts";
import type { Machine } from "./machine.ts";

export interface LineOptions {
  readonly dataDir: string;
  readonly machine: Pick<Machine, "env" | "platform">;
  readonly onNotice: (notice: string) => void;
  readonly bounds?: Partial<Omit<LineSettings, "socketPath" | "secret">>;
}

const LOCK_FILE = "line.lock";
const LOCK_POLL_MS = 20;
const LOCK_MS_MAX = 5_000;
/** A line that takes longer is not waited for: calls are sent without it. */
const START_MS_MAX = 10_000;
const HELLO_MS_MAX = 2_000;
/** The shortest bound among systems, with the zero byte at the end left out. */
const SOCKET_PATH_BYTES_MAX = 103;
const SECRET_BYTES = 32;

/** What of the environment a connection to a provider depends on; all else stays here. */
const PASSED_ON =
  /^(?:(?:HTTPS?|NO)_PROXY|(?:https?|no)_proxy|NODE_USE_ENV_PROXY|NODE_EXTRA_CA_CERTS|NODE_USE_SYSTEM_CA|NODE_COMPILE_CACHE|SSL_CERT_(?:FILE|DIR)|NODE_TLS_REJECT_UNAUTHORIZED)$/;

/** Undefined where there are no lines. */
export function openLine(options: LineOptions): LineClient | undefined {
  if (options.machine.platform === "win32") return undefined;
  const { onNotice } = options;
  let isTold = false;
  return new LineClient(async () => {
    try {
      return await ensureLine(options);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (!isTold) onNotice(`model calls end with this server: there is no line (${why})`);
      isTold = true;
      return undefined;
    }
  });
}

export async function ensureLine(options: LineOptions): Promise<LinePlace> {
  const { dataDir, machine } = options;
  const directory = runtimeDirectory(machine.env);
  const id = createHash("sha256").update(realpathSync(dataDir)).digest("hex").slice(0, 16);
  const stem = join(directory, `${id}-${LINE_VERSION}`);
  const [socketPath, secretPath] = [`${stem}.sock`, `${stem}.secret`];
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES_MAX)
    throw new Error(
      `the path of its socket, ${socketPath}, is too long; set XDG_RUNTIME_DIR to a shorter one`,
    );
  const lock = await lineLock(join(dataDir, LOCK_FILE));
  try {
    const kept = readFileIfThere(secretPath)?.trim() ?? "";
    if (kept !== "" && (await isThere({ socketPath, secret: kept }))) return { socketPath, secret: kept };
    const secret = randomBytes(SECRET_BYTES).toString("hex");
    rmSync(socketPath, { force: true });
    writeSecretFile(secretPath, secret);
    await start({ ...LINE_DEFAULTS, ...options.bounds, socketPath, secret }, machine.env);
    return { socketPath, secret };
  } finally {
    lock.release();
  }
}

async function lineLock(path: string): Promise<{ release(): void }> {
  for (let waitedMs = 0; ; waitedMs += LOCK_POLL_MS) {
    const lock = tryLock(path);
    if (lock !== undefined) return lock;
    if (waitedMs >= LOCK_MS_MAX) throw new Error(`another process starts one, and holds ${path}`);
    await sleep(LOCK_POLL_MS);
  }
}

/** Of this user alone: a program that could put a socket there would get API keys. */
function runtimeDirectory(env: Machine["env"]): string {
  const user = process.getuid?.();
  const given = env["XDG_RUNTIME_DIR"];
  const path =
    given !== undefined && isAbsolute(given) ? join(given, "holdfast") : join(tmpdir(), `holdfast-${user}`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== user || (found.mode & 0o077) !== 0)
    throw new Error(`${path} is not a directory of this user alone; remove it, or close it with chmod 700`);
  return path;
}

/** Whether the line that knows the secret listens there, and is of this version. */
async function isThere({ socketPath, secret }: LinePlace): Promise<boolean> {
  const nonce = randomBytes(SECRET_BYTES).toString("hex");
  const hello = asking(socketPath, { ask: "hello", nonce });
  hello.setTimeout(HELLO_MS_MAX, () => hello.destroy(new Error("the line does not answer")));
  try {
    const { version, proof } = fieldsIn(await text(hello));
    return version === LINE_VERSION && proof === proofOf(secret, nonce);
  } catch {
    return false;
  }
}

async function start(settings: LineSettings, env: Machine["env"]): Promise<void> {
  const file = import.meta.filename.endsWith(".ts") ? "line-process.ts" : "line-process.js";
  const path = join(import.meta.dirname, "../agent/models/line", file);
  const passed = Object.entries(env).filter(([name]) => PASSED_ON.test(name));
  // Node cannot set limits: the shell turns core dumps off, which would hold API keys, and becomes the line.
  const line = spawn("/bin/sh", ["-c", 'ulimit -c 0; exec "$0" "$@"', process.execPath, path], {
    cwd: "/",
    detached: true,
    env: Object.fromEntries(passed),
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  line.unref();
  const pipe = line.stdio[3];
  if (!(pipe instanceof Duplex)) throw new Error("it cannot be given its settings");
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(() => reject(new Error("it did not start in time")), START_MS_MAX);
  line.once("error", reject);
  pipe.on("error", reject);
  pipe.on("data", () => resolve());
  pipe.on("close", () => reject(new Error("it ended at its start")));
  pipe.end(JSON.stringify(settings));
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    pipe.destroy();
  }
}
