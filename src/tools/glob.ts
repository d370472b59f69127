/**
 * Finds files by name, among those that a search looks at.
 */
import type { ToolRun } from "../client/tools.ts";
import type { GlobArgs } from "../protocol/messages.ts";
import { fault } from "./faults.ts";
import { asksForHidden, compileGlob } from "./glob-pattern.ts";
import type { Jail } from "./jail.ts";
import { newPace } from "./pace.ts";
import type { ResultMessage } from "./results.ts";
import { filesBelow } from "./tree.ts";

const RESULTS_DEFAULT = 1000;
const RESULTS_MAX = 5000;

export async function glob(args: GlobArgs, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  if (args.pattern === "") throw fault("EINVAL", "the pattern is empty; **/* finds every file");
  const max = args.resultsMax === 0 ? RESULTS_DEFAULT : Math.min(args.resultsMax, RESULTS_MAX);
  const pattern = relativeOf(args, jail);
  const matches = compileGlob(pattern, { hidden: false, braces: true });
  using place = jail.locate(args.path);
  if (place.held === undefined) throw fault("ENOENT", `there is no ${args.path}`);
  const pace = newPace(run.signal);
  const paths: string[] = [];
  let truncated = false;
  const prefix = place.path === "" ? 0 : place.path.length + 1;
  for (const file of filesBelow(jail, place, { hidden: asksForHidden(pattern) })) {
    await pace.next();
    if (file === undefined || !matches(file.path.slice(prefix))) continue;
    truncated = paths.length === max;
    if (truncated) break;
    paths.push(file.path);
  }
  const value = { paths: paths.toSorted(), truncated };
  return { case: "globResult", value: { result: { case: "success", value } } };
}

/** Models also write `./src/*` and whole paths; as they stand these would find nothing. */
function relativeOf({ pattern, path }: GlobArgs, jail: Jail): string {
  const root = `${jail.root.path}/`;
  if (path === "" && pattern.startsWith(root)) return pattern.slice(root.length);
  if (pattern.startsWith("/")) {
    throw fault(
      "EINVAL",
      "the pattern is relative to the path where the search begins; leave out the slash before it",
    );
  }
  return pattern.replace(/^(?:\.\/)+/, "");
}
