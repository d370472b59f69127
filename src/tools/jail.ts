/**
 * The workspace as the only place that file tools can reach (E6).
 *
 * A path is walked name by name from a descriptor of the workspace, never resolved as a whole: each
 * directory is held open, a symlink is read and its target walked by the same rule, `..` goes back
 * along the directories that are held, and nothing goes above the first. So what is checked and what is used are the
 * same descriptor, and swapping a directory for a symlink in between changes nothing.
 *
 * Invariant: every descriptor of a Place was reached from the workspace's by steps that followed no symlink.
 */
import { mkdirSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { type ClosedDirectories, type ClosedNow, isClosed, NOTHING_CLOSED } from "./closed.ts";
import { codeOf, fault } from "./faults.ts";
import { entryPath, type Held, holdDirectory, holdEntry, letGo } from "./held.ts";

/** As Linux has them. */
const SYMLINKS_MAX = 40;
const PATH_BYTES_MAX = 4096;

export interface JailOptions {
  /** Other names of the workspace that absolute paths may begin with. */
  readonly aliases: readonly string[];
  /** What no tool touches: our own journals, data and keys. */
  readonly closed: ClosedNow;
}

/** Where a path leads. Everything in it is held open until it is disposed of. */
export interface Place extends Disposable {
  /** Relative to the workspace, without symlinks; "" is the workspace. */
  readonly path: string;
  /** From the workspace to `directory`. */
  readonly directories: readonly Held[];
  /** The one that the last name is in. */
  readonly directory: Held;
  /** The last name; "" for the workspace. */
  readonly name: string;
  /** Undefined when there is nothing of this name, or a symlink that was not to be followed. */
  readonly held: Held | undefined;
  /** Only with `keepLastLink`. */
  readonly isLink: boolean;
}

interface LocateOptions {
  /** Directories that are missing on the way are made. */
  readonly makeParents?: boolean;
  /** A symlink as the last name is meant itself, as with `rm`. */
  readonly keepLastLink?: boolean;
}

export class Jail {
  readonly root: Held;
  readonly #options: () => JailOptions;

  /** The options are asked for at each walk: what is closed may change. */
  constructor(root: Held, options: () => JailOptions) {
    this.root = root;
    this.#options = options;
  }

  /** What is closed stays the caller's to let go. */
  static open(workspace: string, closed?: Pick<ClosedDirectories, "now">): Jail {
    const real = realpathSync(workspace);
    const aliases = [resolve(workspace)];
    return new Jail(holdDirectory(real), () => ({ aliases, closed: closed?.now ?? NOTHING_CLOSED }));
  }

  get options(): JailOptions {
    return this.#options();
  }

  close(): void {
    letGo(this.root);
  }

  locate(path: string, options: LocateOptions = {}): Place {
    if (Buffer.byteLength(path) > PATH_BYTES_MAX) {
      throw fault("ENAMETOOLONG", `a path has at most ${PATH_BYTES_MAX} bytes`);
    }
    return walk(this.root, { ...this.options, ...options }, path);
  }
}

function outside(asked: string): Error {
  return fault("EACCES", `${asked} leads outside of the workspace; only paths within it can be used`);
}

function belongsToHoldfast(path: string): Error {
  return fault("EACCES", `${path} in the workspace belongs to Holdfast; tools do not touch it`);
}

/** One way from the workspace to somewhere: the directories held so far, and what stands at the end. */
function walk(root: Held, options: JailOptions & LocateOptions, asked: string): Place {
  /** Without the root, which is not ours to let go. */
  let way: { readonly name: string; readonly held: Held }[] = [];
  /** The last name when nothing is held for it. */
  let last: { readonly name: string; readonly isLink: boolean } | undefined;
  let symlinks = 0;

  function namesOf(path: string): readonly string[] {
    if (path.includes("\0")) throw fault("EINVAL", "a path has no NUL character");
    return withinRoot(path)
      .split("/")
      .filter((name) => name !== "" && name !== ".");
  }

  function withinRoot(path: string): string {
    if (!path.startsWith("/")) return path;
    for (const name of [root.path, ...options.aliases]) {
      if (path === name) return "";
      if (path.startsWith(name === "/" ? name : `${name}/`)) return path.slice(name.length);
    }
    throw outside(asked);
  }

  /** Returns the target when the name is a symlink. */
  function step(name: string, isLast: boolean): string | undefined {
    if (name === "..") {
      back();
      return undefined;
    }
    const { closed, makeParents, keepLastLink } = options;
    const dir = way.at(-1)?.held ?? root;
    if (!dir.stats.isDirectory()) throw fault("ENOTDIR", `${asked}: ${dir.path} is no directory`);
    const path = pathOf(name);
    if (isClosed(closed, path, undefined)) throw belongsToHoldfast(path);
    let entry = holdEntry(dir, name);
    if (entry.kind === "missing" && !isLast) {
      if (makeParents !== true) throw fault("ENOENT", `there is no ${asked}`);
      makeDirectory(dir, name);
      entry = holdEntry(dir, name);
    }
    switch (entry.kind) {
      case "held":
        // First of all: what is refused below is let go with the rest.
        way.push({ name, held: entry.held });
        if (isClosed(closed, path, entry.held.stats)) throw belongsToHoldfast(path);
        return undefined;
      case "link":
        if (keepLastLink === true && isLast) {
          last = { name, isLink: true };
          return undefined;
        }
        if (++symlinks > SYMLINKS_MAX) throw fault("ELOOP", `${asked} has too many symlinks`);
        return entry.target;
      case "missing":
        if (!isLast) throw fault("EAGAIN", `${asked} changes while it is looked at; try again`);
        last = { name, isLink: false };
        return undefined;
    }
  }

  function pathOf(...more: readonly string[]): string {
    return [...way.map(({ name }) => name), ...more].join("/");
  }

  function back(): void {
    const left = way.pop();
    if (left === undefined) throw outside(asked);
    letGo(left.held);
  }

  function letAllGo(): void {
    for (const { held } of way) letGo(held);
    way = [];
  }

  function end(): Place {
    const path = last === undefined ? pathOf() : pathOf(last.name);
    const chain = [root, ...way.map(({ held }) => held)];
    const { name, isLink } = last ?? { name: way.at(-1)?.name ?? "", isLink: false };
    const held = last === undefined ? chain.at(-1) : undefined;
    const directories = last === undefined && chain.length > 1 ? chain.slice(0, -1) : chain;
    const directory = directories.at(-1) ?? root;
    return { path, directories, directory, name, held, isLink, [Symbol.dispose]: letAllGo };
  }

  try {
    let names = namesOf(asked);
    for (;;) {
      const [name, ...rest] = names;
      if (name === undefined) return end();
      const target = step(name, rest.length === 0);
      names = target === undefined ? rest : [...namesOf(target), ...rest];
      if (target?.startsWith("/") === true) letAllGo();
    }
  } catch (cause) {
    letAllGo();
    throw cause;
  }
}

function makeDirectory(dir: Held, name: string): void {
  try {
    mkdirSync(entryPath(dir, name));
  } catch (cause) {
    // Another process made it: as good.
    if (codeOf(cause) !== "EEXIST") throw cause;
  }
}
