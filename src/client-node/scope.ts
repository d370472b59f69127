/**
 * Where a client's data lies: in the workspace it works on, or with the user's other application data.
 *
 * Home keys lie elsewhere, with the user's configuration, so that who copies or commits a data
 * directory has not copied the key to it.
 */
import { homedir, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import { makeDirectory, makePrivateDirectory, writeOnce } from "./private-files.ts";

export type ScopeName = "workspace" | "application";

interface ScopeOptions {
  readonly scope: ScopeName;
  /** The workspace, or the data directory of the application scope. */
  readonly directory: string | undefined;
}

export interface ScopePaths {
  /** Of everything below. */
  readonly directory: string;
  readonly database: string;
  /** Held while a home key is being made. */
  readonly keyLock: string;
  /** One lock file per living process. */
  readonly processes: string;
}

/** The platform, as far as directories depend on it. */
export interface Platform {
  readonly name: string;
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Looks for the home directory only when it is needed: in a container there may be none. */
export function thisPlatform(): Platform {
  return {
    name: process.platform,
    get home() {
      return homeDirectory();
    },
    environment: process.env,
  };
}

/** An empty HOME must not lead into the working directory, where data and key would lie side by side. */
export function findHomeDirectory(): string | undefined {
  for (const directoryOf of [homedir, () => userInfo().homedir]) {
    const home = attempt(directoryOf);
    if (home !== undefined && isAbsolute(home)) return home;
  }
  return undefined;
}

function homeDirectory(): string {
  const home = findHomeDirectory();
  if (home !== undefined) return home;
  throw new HoldfastError(
    "unavailable",
    "this user has no home directory: set HOME; or name a directory, and set HOLDFAST_HOME_KEY to 32 bytes in base64url",
  );
}

/** Node throws when the system does not know the user. */
function attempt(directoryOf: () => string): string | undefined {
  try {
    return directoryOf();
  } catch {
    return undefined;
  }
}

export function scopePaths({ scope, directory }: ScopeOptions, platform = thisPlatform()): ScopePaths {
  const root =
    scope === "workspace"
      ? join(resolve(directory ?? process.cwd()), ".holdfast")
      : resolve(directory ?? applicationDirectory(platform));
  return {
    directory: root,
    database: join(root, "client.db"),
    keyLock: join(root, "home-key.lock"),
    processes: join(root, "processes"),
  };
}

/**
 * Makes the directory; a `.gitignore` keeps it out of version control. A workspace's directory is ours and
 * closed to others; one that the caller named is theirs and stays as it is, only what we put there is private.
 */
export function makeScope({ directory }: ScopePaths, scope: ScopeName): void {
  if (scope === "application") {
    makeDirectory(directory);
    return;
  }
  makePrivateDirectory(directory);
  writeOnce(join(directory, ".gitignore"), "*\n");
}

export function applicationDirectory({ name, home, environment }: Platform): string {
  switch (name) {
    case "win32":
      return join(setPath(environment["LOCALAPPDATA"]) ?? join(home, "AppData", "Local"), "holdfast");
    case "darwin":
      return join(home, "Library", "Application Support", "holdfast");
    default:
      return join(setPath(environment["XDG_DATA_HOME"]) ?? join(home, ".local", "share"), "holdfast");
  }
}

/** Where home keys are kept as files: never within a scope's directory. */
export function keyDirectory({ name, home, environment }: Platform): string {
  const configured =
    name === "win32"
      ? (setPath(environment["APPDATA"]) ?? join(home, "AppData", "Roaming"))
      : (setPath(environment["XDG_CONFIG_HOME"]) ?? join(home, ".config"));
  return join(configured, "holdfast", "keys");
}

/** The XDG specification says to ignore a relative path. */
function setPath(value: string | undefined): string | undefined {
  return value !== undefined && isAbsolute(value) ? value : undefined;
}
