/**
 * Which of the files below a place a search looks at, by a glob.
 *
 * As with ripgrep's `-g`: a glob without a slash is a name at any depth, one that begins with `!` leaves out. With a
 * slash it may be written from the workspace or from the place that is searched; models do both.
 */
import { asksForHidden, compileGlob } from "./glob-pattern.ts";

export interface FileFilter {
  /** The walk must look at hidden names. */
  readonly hidden: boolean;
  takes(path: string): boolean;
}

/** `place` is where the search begins, relative to the workspace. */
export function fileFilter(glob: string, place: string): FileFilter {
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
