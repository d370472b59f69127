/**
 * The files below a place of the workspace that a search looks at: by descriptor, in a fixed order, without symlinks,
 * hidden files and what `.gitignore` files leave out, as ripgrep walks.
 *
 * Each directory is held only while the walk is in it. The order is by name within each directory, so a search
 * that is cut short gives the same results each time.
 */
import type { Dirent } from "node:fs";
import { type ClosedNow, isClosed } from "./closed.ts";
import { codeOf } from "./faults.ts";
import { entriesOf, type Held, holdEntry } from "./held.ts";
import { IgnoreRules } from "./ignore-rules.ts";
import type { Jail, Place } from "./jail.ts";

export interface TreeFile {
  /** Relative to the workspace. */
  readonly path: string;
  /** Takes hold of it, as long as the walk stands here. Undefined when it is gone or no plain file any more. */
  hold(): Held | undefined;
}

/** A larger file is not searched, and the result says that something was left out. */
export const SEARCHED_BYTES_MAX = 64 * 1024 * 1024;

/** Each level is a descriptor that is held. What lies deeper is not searched; few paths are so long. */
const DEPTH_MAX = 256;

interface TreeOptions {
  /** Also names that begin with a dot; never `.git`. */
  readonly hidden: boolean;
}

/**
 * The place must be held until the walk is over. A place that is a file is its only file. Undefined is a step
 * that found none: the caller can stop, or let others run, also where there are no files.
 */
export function* filesBelow(jail: Jail, place: Place, options: TreeOptions): Generator<TreeFile | undefined> {
  if (place.held === undefined) return;
  if (!place.held.stats.isDirectory()) {
    yield treeFile(place.directory, place.name, place.path);
    return;
  }
  const names = place.path === "" ? [] : place.path.split("/");
  let rules = IgnoreRules.NONE;
  // Also the rules above the place; the place itself may be ignored and is searched because it was named.
  for (const [depth, directory] of place.directories.entries()) {
    if (depth < names.length) rules = rules.within(directory, names.slice(0, depth).join("/"));
  }
  yield* walk(place.held, place.path, rules, { ...options, closed: jail.options.closed }, 1);
}

interface WalkOptions extends TreeOptions {
  readonly closed: ClosedNow;
}

function* walk(
  dir: Held,
  path: string,
  above: IgnoreRules,
  options: WalkOptions,
  depth: number,
): Generator<TreeFile | undefined> {
  const rules = above.within(dir, path);
  for (const entry of readable(dir)) {
    const entryPath = path === "" ? entry.name : `${path}/${entry.name}`;
    yield undefined;
    if (entry.name.startsWith(".") && (!options.hidden || entry.name === ".git")) continue;
    if (entry.isDirectory()) {
      if (depth === DEPTH_MAX || rules.ignores(entryPath, true)) continue;
      using held = hold(dir, entry.name);
      if (held?.stats.isDirectory() === true && !isClosed(options.closed, entryPath, held.stats))
        yield* walk(held, entryPath, rules, options, depth + 1);
    } else if (entry.isFile() && !rules.ignores(entryPath, false)) {
      yield treeFile(dir, entry.name, entryPath);
    }
  }
}

function treeFile(dir: Held, name: string, path: string): TreeFile {
  return { path, hold: () => hold(dir, name) };
}

/** A directory that may not be read, or is gone, has nothing to search. */
function readable(dir: Held): readonly Dirent[] {
  try {
    return entriesOf(dir);
  } catch (cause) {
    if (isGoneOrClosed(cause)) return [];
    throw cause;
  }
}

function hold(dir: Held, name: string): Held | undefined {
  try {
    const entry = holdEntry(dir, name);
    return entry.kind === "held" ? entry.held : undefined;
  } catch (cause) {
    if (isGoneOrClosed(cause)) return undefined;
    throw cause;
  }
}

function isGoneOrClosed(cause: unknown): boolean {
  return ["EACCES", "EPERM", "ENOENT", "ENOTDIR", "EAGAIN"].includes(codeOf(cause));
}
