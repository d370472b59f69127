/**
 * Directories of Holdfast's own, which no tool touches: journals, the server's data, keys.
 *
 * A directory is known by its device and inode, so it stays closed under another name, moved, or behind a mount. It is held open
 * from the first time it is seen: so its inode is not given to another one, and the kernel says where it is now. Its usual path is
 * closed too, also before there is anything. A tool looks again before it runs, since a directory may have been made meanwhile.
 */
import { fstatSync, readlinkSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { codeOf } from "./faults.ts";
import { type Held, holdDirectory, letGo, selfPath } from "./held.ts";

/** As plain values, for a thread. */
export interface ClosedNow {
  /** Relative to the workspace. */
  readonly paths: readonly string[];
  readonly ids: readonly string[];
}

export const NOTHING_CLOSED: ClosedNow = { paths: [], ids: [] };

export function isClosed({ paths, ids }: ClosedNow, path: string, stats: Stats | undefined): boolean {
  return paths.includes(path) || (stats !== undefined && ids.includes(idOf(stats)));
}

function idOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

export type ClosedDirectories = ReturnType<typeof closedDirectories>;

/** Both are absolute; the workspace is free of symlinks. */
export function closedDirectories(workspace: string, directories: readonly string[]) {
  const held = new Map<string, Held>();
  /** Where they are made. */
  const paths = directories.map(realPath);
  const within = paths
    .map((path) => relative(workspace, path))
    .filter((path) => !path.startsWith("..") && !isAbsolute(path));
  look();

  function look(): void {
    for (const path of paths) {
      const found = holdIfThere(path);
      if (found === undefined) continue;
      const id = idOf(found.stats);
      if (held.has(id)) letGo(found);
      else held.set(id, found);
    }
    for (const [id, one] of held) {
      if (fstatSync(one.fd).nlink > 0) continue;
      held.delete(id);
      letGo(one);
    }
  }

  return {
    get now(): ClosedNow {
      look();
      return { paths: within, ids: [...held.keys()] };
    },
    /** Absolute paths where they are now, wherever that is. */
    get places(): readonly string[] {
      look();
      return [...held.values()].flatMap(placeOf);
    },
    close(): void {
      for (const one of held.values()) letGo(one);
      held.clear();
    },
  };
}

function holdIfThere(path: string): Held | undefined {
  try {
    return holdDirectory(path);
  } catch (cause) {
    // What cannot be entered by us cannot be entered by tools that run as us.
    if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP"].includes(codeOf(cause))) return undefined;
    throw cause;
  }
}

function placeOf(held: Held): readonly string[] {
  return process.platform === "linux" ? [readlinkSync(selfPath(held))] : [held.path];
}

/** Also of what is not there yet: the directory above it may be a symlink. */
function realPath(path: string): string {
  const whole = resolve(path);
  try {
    return realpathSync(whole);
  } catch (cause) {
    if (codeOf(cause) !== "ENOENT" || dirname(whole) === whole) return whole;
    return join(realPath(dirname(whole)), basename(whole));
  }
}
