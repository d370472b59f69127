/**
 * The server's data directory: where it is, and the files in it.
 *
 * It holds sealed streams, hashes of API keys and one API key for the commands of this machine, so it
 * belongs to its user alone: made with 0700, the secrets in it with 0600. One that was there before is closed to others, or refused.
 */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, isAbsolute } from "node:path";
import { failure, systemCode } from "./failures.ts";
import type { Machine } from "./machine.ts";

/** The API key that the first start made, for clients on this machine. */
export const API_KEY_FILE = "api-key";
/** How the commands reach the server that runs on this directory. */
export const CONTROL_FILE = "control.json";
/** Held by the process that starts a server here: a person's `holdfast serve` until it answers, or a chat. */
export const START_LOCK_FILE = "start.lock";

/** Where programs keep their data on this system, for this user. */
export function defaultDataDir({ env, home, platform }: Machine): string {
  return join(userDataDir(env, home, platform), "holdfast", "server");
}

function userDataDir(env: Machine["env"], home: string, platform: NodeJS.Platform): string {
  if (platform === "win32") return env["LOCALAPPDATA"] ?? join(home, "AppData", "Local");
  const xdg = env["XDG_DATA_HOME"];
  // The specification of XDG directories has relative ones ignored.
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  return platform === "darwin" ? join(home, "Library", "Application Support") : join(home, ".local", "share");
}

/** Tells `onNotice` when it had to close it. */
export function makeDataDir(dataDir: string, onNotice: (notice: string) => void): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw failure(
      `the data directory ${dataDir} cannot be made (${systemCode(error) ?? String(error)}); choose another with --data-dir`,
      error,
    );
  }
  closeToOthers(dataDir, onNotice);
}

const OTHERS = 0o077;

function closeToOthers(dataDir: string, onNotice: (notice: string) => void): void {
  // Windows has no such bits; what is in a user's own folders is the user's.
  const user = process.getuid?.();
  if (user === undefined) return;
  const { uid, mode } = statSync(dataDir);
  if (uid !== user) {
    throw failure(
      `the data directory ${dataDir} belongs to another user (${uid}), who could read and change what is in it; ` +
        `choose another with --data-dir, or give it to this user (${user}) with chown`,
    );
  }
  if ((mode & OTHERS) === 0) return;
  if (!isOurs(readdirSync(dataDir))) {
    throw failure(
      `other users may read ${dataDir}, and it has files that are not Holdfast's; ` +
        "name a directory of its own with --data-dir, or close this one with chmod 700",
    );
  }
  chmodSync(dataDir, 0o700);
  onNotice(`other users could read the data directory ${dataDir}; it is closed to them now (0700)`);
}

/** Closing a directory that others use (a home, /tmp) would do more harm than refusing it. */
function isOurs(names: readonly string[]): boolean {
  const own = names.filter((name) => name !== "lost+found");
  return own.length === 0 || own.includes(API_KEY_FILE) || own.some((name) => name.startsWith("holdfast."));
}

/** Whole or not at all, and never readable by others, not even for a moment. */
export function writeSecretFile(path: string, text: string): void {
  const unfinished = `${path}.${process.pid}.new`;
  try {
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, text, { mode: 0o600, flag: "wx" });
    chmodSync(unfinished, 0o600);
    renameSync(unfinished, path);
  } catch (error) {
    throw failure(
      `${path} cannot be written (${systemCode(error) ?? String(error)}); check the directory`,
      error,
    );
  }
}

/** Undefined when there is no such file. */
export function readFileIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw failure(`${path} cannot be read (${systemCode(error) ?? String(error)})`, error);
  }
}
