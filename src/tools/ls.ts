/**
 * Lists a directory, several levels deep when asked.
 *
 * Level by level, so that a listing which is cut has the upper levels whole. Everything is listed, also hidden and
 * ignored files; symlinks are named, not followed.
 */
import { type Dirent, lstatSync } from "node:fs";
import type { ToolRun } from "../client/tools.ts";
import { type LsArgs, LsEntryKind } from "../protocol/messages.ts";
import { type ClosedNow, isClosed } from "./closed.ts";
import { codeOf, fault } from "./faults.ts";
import { compileGlob, type Glob } from "./glob-pattern.ts";
import { entriesOf, entryPath, type Held, holdEntry, letGo } from "./held.ts";
import type { Jail } from "./jail.ts";
import { Pace } from "./pace.ts";
import type { ResultMessage } from "./results.ts";

const ENTRIES_DEFAULT = 1000;
/** Each entry is a path and a few bytes; a chunk holds them. */
const ENTRIES_MAX = 5000;
const DEPTH_MAX = 32;

interface Listed {
  readonly path: string;
  readonly kind: LsEntryKind;
  readonly sizeBytes: bigint;
}

interface Level {
  readonly held: Held;
  /** Relative to the directory that was asked for, with a slash at its end; "" for that one. */
  readonly prefix: string;
}

export async function ls(args: LsArgs, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  const place = jail.locate(args.path);
  const opened: Held[] = [];
  try {
    if (place.held === undefined) throw fault("ENOENT", `there is no ${args.path}`);
    if (!place.held.stats.isDirectory()) throw fault("ENOTDIR", `${args.path} is no directory`);
    const lister = new Lister(args, { closed: jail.options.closed, base: place.path }, opened);
    let level: readonly Level[] = [{ held: place.held, prefix: "" }];
    const pace = new Pace(run.signal);
    for (let depth = Math.min(Math.max(args.depth, 1), DEPTH_MAX); depth > 0 && level.length > 0; depth--) {
      level = await lister.list(level, depth > 1, pace);
    }
    const entries = lister.entries.toSorted((a, b) =>
      Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)),
    );
    const value = { entries, truncated: lister.truncated };
    return { case: "lsResult", value: { result: { case: "success", value } } };
  } finally {
    for (const held of opened) letGo(held);
    place.close();
  }
}

class Lister {
  readonly entries: Listed[] = [];
  truncated = false;
  readonly #max: number;
  readonly #ignored: readonly Glob[];
  readonly #isClosed: (path: string, held: Held) => boolean;
  readonly #opened: Held[];

  constructor(
    args: LsArgs,
    { closed, base }: { readonly closed: ClosedNow; readonly base: string },
    opened: Held[],
  ) {
    this.#max = args.entriesMax === 0 ? ENTRIES_DEFAULT : Math.min(args.entriesMax, ENTRIES_MAX);
    // As in a .gitignore: without a slash it is a name at any depth.
    this.#ignored = args.ignore.map((glob) =>
      compileGlob(glob.replace(/\/$/, "").includes("/") ? glob : `**/${glob}`, {
        hidden: true,
        braces: true,
      }),
    );
    this.#isClosed = (path, { stats }) => isClosed(closed, base === "" ? path : `${base}/${path}`, stats);
    this.#opened = opened;
  }

  /** Returns the directories of the next level. */
  async list(level: readonly Level[], goDeeper: boolean, pace: Pace): Promise<readonly Level[]> {
    const next: Level[] = [];
    for (const { held, prefix } of level) {
      for (const entry of readable(held, prefix === "")) {
        await pace.next();
        const path = `${prefix}${entry.name}`;
        if (this.#ignored.some((matches) => matches(path))) continue;
        if (this.entries.length === this.#max) {
          this.truncated = true;
          return [];
        }
        this.entries.push({ path, kind: kindOf(entry), sizeBytes: sizeOf(held, entry) });
        if (goDeeper && entry.isDirectory()) {
          const below = this.#hold(held, entry.name, path);
          if (below !== undefined) next.push({ held: below, prefix: `${path}/` });
        }
      }
    }
    return next;
  }

  #hold(dir: Held, name: string, path: string): Held | undefined {
    const entry = holdEntry(dir, name);
    if (entry.kind !== "held") return undefined;
    this.#opened.push(entry.held);
    return entry.held.stats.isDirectory() && !this.#isClosed(path, entry.held) ? entry.held : undefined;
  }
}

/** The directory that was asked for must be readable; one below it that is not stays unlisted. */
function readable(dir: Held, isAskedFor: boolean): readonly Dirent[] {
  try {
    return entriesOf(dir);
  } catch (cause) {
    if (isAskedFor || !["EACCES", "EPERM", "ENOENT"].includes(codeOf(cause))) throw cause;
    return [];
  }
}

function kindOf(entry: Dirent): LsEntryKind {
  if (entry.isFile()) return LsEntryKind.FILE;
  if (entry.isDirectory()) return LsEntryKind.DIRECTORY;
  return entry.isSymbolicLink() ? LsEntryKind.SYMLINK : LsEntryKind.UNSPECIFIED;
}

function sizeOf(dir: Held, entry: Dirent): bigint {
  if (!entry.isFile()) return 0n;
  const stats = lstatSync(entryPath(dir, entry.name), { throwIfNoEntry: false });
  return BigInt(stats?.size ?? 0);
}
