/**
 * The server's data directory: where it is, and the files in it.
 *
 * It holds sealed streams, hashes of API keys and one API key for the commands of this machine, so it
 * belongs to its user alone: made with 0700, the secrets in it with 0600.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, isAbsolute } from "node:path";
import { failure, systemCode } from "./failures.ts";
import type { Surroundings } from "./terminal.ts";

/** The API key that the first start made, for clients on this machine. */
export const API_KEY_FILE = "api-key";
/** How the commands reach the server that runs on this directory. */
export const CONTROL_FILE = "control.json";

/** Where programs keep their data on this system, for this user. */
export function defaultDataDir({ env, home, platform }: Surroundings): string {
  return join(userDataDir(env, home, platform), "holdfast", "server");
}

function userDataDir(env: Surroundings["env"], home: string, platform: NodeJS.Platform): string {
  if (platform === "win32") return env["LOCALAPPDATA"] ?? join(home, "AppData", "Local");
  const xdg = env["XDG_DATA_HOME"];
  // The specification of XDG directories has relative ones ignored.
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  return platform === "darwin" ? join(home, "Library", "Application Support") : join(home, ".local", "share");
}

export function makeDataDir(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw failure(
      `the data directory ${dataDir} cannot be made (${systemCode(error) ?? String(error)}); choose another with --data-dir`,
      error,
    );
  }
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
