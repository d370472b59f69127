/**
 * Keeps the compiled form of the source from one start to the next: without it, most of a start of `holdfast serve` is Node reading and compiling.
 *
 * Node runs what it finds there as code. So it lies in the user's own cache directory, and Node uses it only when no other user can put a file there.
 *
 * Invariant: the directory belongs to this user and is closed to all others, and so is the way to it; it is never a shared temporary directory (E4).
 */
import { existsSync, lstatSync, mkdirSync, realpathSync } from "node:fs";
import { constants, enableCompileCache, flushCompileCache } from "node:module";
import { dirname, isAbsolute, join } from "node:path";

interface Place {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  readonly home: string | undefined;
}

/** Without a directory that is this user's alone the command starts as it always did, only slower. */
export function keepCompiledCode({ env, platform, home }: Place): void {
  // The user has chosen a place, or none.
  if (env["NODE_COMPILE_CACHE"] !== undefined || env["NODE_DISABLE_COMPILE_CACHE"] !== undefined) return;
  const directory = cacheDirectory({ env, platform, home });
  // A home that is not there, as services have, stays that way.
  const isHomeless = home !== undefined && !existsSync(home);
  if (directory === undefined || isHomeless || !isOfThisUserAlone(directory)) return;
  const { status } = enableCompileCache(directory);
  // For threads, and for the processes that this one starts.
  if (status === constants.compileCacheStatus.ENABLED) env["NODE_COMPILE_CACHE"] = directory;
}

/** A process that is killed later keeps what it has compiled so far. */
export function saveCompiledCode(): void {
  flushCompileCache();
}

/** Where programs keep what they can make again, on this system, for this user. */
export function cacheDirectory({ env, platform, home }: Place): string | undefined {
  const [variable, ...fallback] =
    platform === "win32"
      ? ["LOCALAPPDATA", "AppData", "Local"]
      : platform === "darwin"
        ? ["", "Library", "Caches"]
        : ["XDG_CACHE_HOME", ".cache"];
  const said = env[variable];
  const root =
    said !== undefined && isAbsolute(said) ? said : home === undefined ? undefined : join(home, ...fallback);
  return root === undefined ? undefined : join(root, "holdfast", "compiled");
}

const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/** Makes it where it is not there. */
function isOfThisUserAlone(directory: string): boolean {
  const user = process.getuid?.();
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    // Windows has no such bits; what is in a user's own folders is the user's.
    if (user === undefined) return true;
    const { uid, mode } = lstatSync(directory);
    return uid === user && (mode & OTHERS) === 0 && isWayClosed(dirname(realpathSync(directory)), user);
  } catch {
    // A home that cannot be written to, as in many containers.
    return false;
  }
}

/** No other user but root can put another directory in its place. */
function isWayClosed(directory: string, user: number): boolean {
  const { uid, mode } = lstatSync(directory);
  const isClosed = (mode & OTHERS_WRITE) === 0 || (mode & STICKY) !== 0;
  if (!isClosed || (uid !== user && uid !== 0)) return false;
  return directory === dirname(directory) || isWayClosed(dirname(directory), user);
}
