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

/** Where a path leads. Everything in it is held open until `close`. */
export interface Place {
  /** Relative to the workspace, without symlinks; "" is the workspace. */
  readonly path: string;
  /** From the workspace to the directory that the last name is in. Never empty. */
  readonly directories: readonly Held[];
  /** The last name; "" for the workspace. */
  readonly name: string;
  /** Undefined when there is nothing of this name, or a symlink that was not to be followed. */
  readonly held: Held | undefined;
  /** Only with `keepLastLink`. */
  readonly isLink: boolean;
  close(): void;
}

export interface LocateOptions {
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
    const { closed, aliases } = this.#options();
    const walk = new Walk(this.root, closed, path);
    try {
      let names = this.#namesOf(path, path, aliases);
      for (;;) {
        const [name, ...rest] = names;
        if (name === undefined) return walk.end();
        const target = walk.step(name, rest, options);
        names = target === undefined ? rest : [...this.#follow(walk, target, path, aliases), ...rest];
      }
    } catch (cause) {
      walk.letAllGo();
      throw cause;
    }
  }

  #follow(walk: Walk, target: string, asked: string, aliases: readonly string[]): readonly string[] {
    const names = this.#namesOf(target, asked, aliases);
    if (target.startsWith("/")) walk.backToRoot();
    return names;
  }

  #namesOf(path: string, asked: string, aliases: readonly string[]): readonly string[] {
    if (path.includes("\0")) throw fault("EINVAL", "a path has no NUL character");
    return this.#withinRoot(path, asked, aliases)
      .split("/")
      .filter((name) => name !== "" && name !== ".");
  }

  #withinRoot(path: string, asked: string, aliases: readonly string[]): string {
    if (!path.startsWith("/")) return path;
    for (const root of [this.root.path, ...aliases]) {
      if (path === root) return "";
      if (path.startsWith(root === "/" ? root : `${root}/`)) return path.slice(root.length);
    }
    throw outside(asked);
  }
}

function outside(asked: string): Error {
  return fault("EACCES", `${asked} leads outside of the workspace; only paths within it can be used`);
}

function belongsToHoldfast(path: string): Error {
  return fault("EACCES", `${path} in the workspace belongs to Holdfast; tools do not touch it`);
}

/** One way from the workspace to somewhere: the directories held so far, and what stands at the end. */
class Walk {
  readonly #root: Held;
  readonly #closed: ClosedNow;
  readonly #asked: string;
  /** Without the root, which is not ours to let go. */
  #held: { readonly name: string; readonly held: Held }[] = [];
  /** The last name when nothing is held for it. */
  #last: { readonly name: string; readonly isLink: boolean } | undefined;
  #symlinks = 0;

  constructor(root: Held, closed: ClosedNow, asked: string) {
    this.#root = root;
    this.#closed = closed;
    this.#asked = asked;
  }

  /** Returns the target when the name is a symlink. */
  step(name: string, rest: readonly string[], options: LocateOptions): string | undefined {
    if (name === "..") {
      this.#back();
      return undefined;
    }
    const dir = this.#here;
    if (!dir.stats.isDirectory()) throw fault("ENOTDIR", `${this.#asked}: ${dir.path} is no directory`);
    const path = [...this.#held.map((one) => one.name), name].join("/");
    if (isClosed(this.#closed, path, undefined)) throw belongsToHoldfast(path);
    let entry = holdEntry(dir, name);
    if (entry.kind === "missing" && rest.length > 0) {
      if (options.makeParents !== true) throw fault("ENOENT", `there is no ${this.#asked}`);
      makeDirectory(dir, name);
      entry = holdEntry(dir, name);
    }
    switch (entry.kind) {
      case "held":
        // First of all: what is refused below is let go with the rest.
        this.#held.push({ name, held: entry.held });
        if (isClosed(this.#closed, path, entry.held.stats)) throw belongsToHoldfast(path);
        return undefined;
      case "link":
        if (options.keepLastLink === true && rest.length === 0) {
          this.#last = { name, isLink: true };
          return undefined;
        }
        if (++this.#symlinks > SYMLINKS_MAX) throw fault("ELOOP", `${this.#asked} has too many symlinks`);
        return entry.target;
      case "missing":
        if (rest.length > 0) throw fault("EAGAIN", `${this.#asked} changes while it is looked at; try again`);
        this.#last = { name, isLink: false };
        return undefined;
    }
  }

  get #here(): Held {
    return this.#held.at(-1)?.held ?? this.#root;
  }

  #back(): void {
    const last = this.#held.pop();
    if (last === undefined) throw outside(this.#asked);
    letGo(last.held);
  }

  backToRoot(): void {
    this.letAllGo();
    this.#held = [];
  }

  letAllGo(): void {
    for (const { held } of this.#held) letGo(held);
  }

  end(): Place {
    const chain = [this.#root, ...this.#held.map(({ held }) => held)];
    const names = this.#held.map(({ name }) => name);
    const close = () => this.letAllGo();
    if (this.#last !== undefined) {
      const { name, isLink } = this.#last;
      return { path: [...names, name].join("/"), directories: chain, name, held: undefined, isLink, close };
    }
    const directories = chain.length === 1 ? chain : chain.slice(0, -1);
    const name = names.at(-1) ?? "";
    return { path: names.join("/"), directories, name, held: chain.at(-1), isLink: false, close };
  }
}

function makeDirectory(dir: Held, name: string): void {
  try {
    mkdirSync(entryPath(dir, name));
  } catch (cause) {
    // Somebody else made it: as good.
    if (codeOf(cause) !== "EEXIST") throw cause;
  }
}
