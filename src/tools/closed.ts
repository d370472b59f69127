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

export class ClosedDirectories {
  /** Where they are made. */
  readonly #paths: readonly string[];
  readonly #within: readonly string[];
  readonly #held = new Map<string, Held>();

  /** Both are absolute; the workspace is free of symlinks. */
  constructor(workspace: string, directories: readonly string[]) {
    this.#paths = directories.map(realPath);
    this.#within = this.#paths
      .map((path) => relative(workspace, path))
      .filter((path) => !path.startsWith("..") && !isAbsolute(path));
    this.#look();
  }

  get now(): ClosedNow {
    this.#look();
    return { paths: this.#within, ids: [...this.#held.keys()] };
  }

  /** Absolute paths where they are now, wherever that is. */
  get places(): readonly string[] {
    this.#look();
    return [...this.#held.values()].flatMap(placeOf);
  }

  close(): void {
    for (const held of this.#held.values()) letGo(held);
    this.#held.clear();
  }

  #look(): void {
    for (const path of this.#paths) {
      const held = holdIfThere(path);
      if (held === undefined) continue;
      const id = idOf(held.stats);
      if (this.#held.has(id)) letGo(held);
      else this.#held.set(id, held);
    }
    for (const [id, held] of this.#held) {
      if (fstatSync(held.fd).nlink > 0) continue;
      this.#held.delete(id);
      letGo(held);
    }
  }
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
