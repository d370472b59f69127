/**
 * Lists a directory, several levels deep when asked.
 *
 * Level by level, so that a listing which is cut has the upper levels whole. Everything is listed, also hidden and
 * ignored files; symlinks are named, not followed.
 */
import { type Dirent, lstatSync } from "node:fs";
import type { ToolRun } from "../client/tools.ts";
import { type LsArgs, LsEntryKind } from "../protocol/messages.ts";
import { isClosed } from "./closed.ts";
import { codeOf, fault } from "./faults.ts";
import { compileGlob } from "./glob-pattern.ts";
import { entriesOf, entryPath, type Held, holdEntry, letGo } from "./held.ts";
import type { Jail } from "./jail.ts";
import { newPace, type Pace } from "./pace.ts";
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

export async function ls(args: LsArgs, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  const max = args.entriesMax === 0 ? ENTRIES_DEFAULT : Math.min(args.entriesMax, ENTRIES_MAX);
  using place = jail.locate(args.path);
  if (place.held === undefined) throw fault("ENOENT", `there is no ${args.path}`);
  if (!place.held.stats.isDirectory()) throw fault("ENOTDIR", `${args.path} is no directory`);
  const { closed } = jail.options;
  const base = place.path === "" ? "" : `${place.path}/`;
  const mayEnter = (path: string, { stats }: Held): boolean =>
    stats.isDirectory() && !isClosed(closed, base + path, stats);
  const found: Listed[] = [];
  let truncated = false;
  for await (const listed of listing(place.held, args, mayEnter, newPace(run.signal))) {
    truncated = found.length === max;
    if (truncated) break;
    found.push(listed);
  }
  const entries = found.toSorted((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
  return { case: "lsResult", value: { result: { case: "success", value: { entries, truncated } } } };
}

/** Paths are relative to the directory that was asked for. */
async function* listing(
  top: Held,
  args: LsArgs,
  mayEnter: (path: string, held: Held) => boolean,
  pace: Pace,
): AsyncGenerator<Listed> {
  // As in a .gitignore: without a slash it is a name at any depth.
  const ignored = args.ignore.map((glob) =>
    compileGlob(glob.replace(/\/$/, "").includes("/") ? glob : `**/${glob}`, { hidden: true, braces: true }),
  );
  const opened: Held[] = [];
  let level = [{ held: top, prefix: "" }];
  try {
    for (let depth = Math.min(Math.max(args.depth, 1), DEPTH_MAX); depth > 0; depth--) {
      const next: typeof level = [];
      for (const { held, prefix } of level) {
        for (const entry of readable(held, prefix === "")) {
          await pace.next();
          const path = `${prefix}${entry.name}`;
          if (ignored.some((matches) => matches(path))) continue;
          yield { path, kind: kindOf(entry), sizeBytes: sizeOf(held, entry) };
          const below = depth > 1 && entry.isDirectory() ? holdEntry(held, entry.name) : undefined;
          if (below?.kind !== "held") continue;
          opened.push(below.held);
          if (mayEnter(path, below.held)) next.push({ held: below.held, prefix: `${path}/` });
        }
      }
      level = next;
    }
  } finally {
    for (const held of opened) letGo(held);
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
