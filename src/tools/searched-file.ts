/**
 * The files that a search looks at, whichever program matches: those below a place that its glob takes, opened as they were found, if
 * they are plain, may be read and are not too large.
 *
 * The glob is as with ripgrep's `-g`: without a slash it is a name at any depth, one that begins with `!` leaves out. With a
 * slash it may be written from the workspace or from the place that is searched; models do both.
 */
import { codeOf } from "./faults.ts";
import { asksForHidden, compileGlob } from "./glob-pattern.ts";
import type { FileSearch, GrepCollector } from "./grep-collector.ts";
import { openHeldFileSync } from "./held.ts";
import type { Jail } from "./jail.ts";
import { filesBelow, SEARCHED_BYTES_MAX, type TreeFile } from "./tree.ts";

export interface OpenFile {
  /** Relative to the workspace. */
  readonly path: string;
  /** The caller's to close. */
  readonly fd: number;
}

/** Undefined is a step that found none. */
export function* searchedFiles(
  { path, glob }: FileSearch,
  jail: Jail,
  collector: GrepCollector,
): Generator<OpenFile | undefined> {
  using place = jail.locate(path);
  const filter = fileFilter(glob, place.path);
  for (const file of filesBelow(jail, place, filter)) {
    const fd = file !== undefined && filter.takes(file.path) ? openSearched(file, collector) : undefined;
    yield file === undefined || fd === undefined ? undefined : { path: file.path, fd };
  }
}

interface FileFilter {
  /** The walk must look at hidden names. */
  readonly hidden: boolean;
  takes(path: string): boolean;
}

/** `place` is where the search begins, relative to the workspace. */
function fileFilter(glob: string, place: string): FileFilter {
  if (glob === "") return { hidden: false, takes: () => true };
  const leavesOut = glob.startsWith("!");
  const body = leavesOut ? glob.slice(1) : glob;
  const anchored = body.includes("/") ? body : `**/${body}`;
  const matches = compileGlob(anchored, { hidden: leavesOut, braces: true });
  const below = place === "" ? 0 : place.length + 1;
  return {
    hidden: !leavesOut && asksForHidden(body),
    takes: (path) => (matches(path) || matches(path.slice(below))) !== leavesOut,
  };
}

function openSearched(file: TreeFile, collector: GrepCollector): number | undefined {
  using held = file.hold();
  if (held?.stats.isFile() !== true) return undefined;
  if (held.stats.size > SEARCHED_BYTES_MAX) {
    collector.findings.truncated = true;
    return undefined;
  }
  try {
    return openHeldFileSync(held, file.path);
  } catch (cause) {
    if (codeOf(cause) === "EACCES" || codeOf(cause) === "EPERM") return undefined;
    throw cause;
  }
}
