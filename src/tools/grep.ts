/**
 * Searches files for a regular expression: by ripgrep when there is one, else by ourselves, with the same results.
 *
 * Which files are searched, what is ignored and where results are cut is decided here in both cases; only the matching
 * differs. ripgrep gets the files as open descriptors, so it opens no path that could lead outside (E6).
 */
import type { ToolRun } from "../client/tools.ts";
import { type GrepArgs, GrepOutput } from "../protocol/messages.ts";
import { fault } from "./faults.ts";
import type { Search } from "./grep-collector.ts";
import { searchInThread } from "./grep-thread.ts";
import type { Jail } from "./jail.ts";
import type { ResultMessage } from "./results.ts";
import { searchWithRipgrep } from "./ripgrep.ts";

const LINES_DEFAULT = 500;
const FILES_DEFAULT = 1000;
const RESULTS_MAX = 5000;
const CONTEXT_MAX = 100;

/** `ripgrep` is the program; without one we search ourselves. */
export async function grep(
  args: GrepArgs,
  ripgrep: string | undefined,
  jail: Jail,
  run: ToolRun,
): Promise<ResultMessage> {
  if (args.pattern === "") throw fault("EINVAL", "the pattern is empty");
  // Both engines report a place that is not there in the same way.
  using place = jail.locate(args.path);
  if (place.held === undefined) throw fault("ENOENT", `there is no ${args.path}`);
  const { path, glob } = args;
  const what = { search: searchOf(args), path, glob };
  const value = await (ripgrep === undefined
    ? searchInThread(what, jail, run.signal)
    : searchWithRipgrep(ripgrep, what, jail, run.signal));
  return { case: "grepResult", value: { result: { case: "success", value } } };
}

export function searchOf(args: GrepArgs): Search {
  const isByLine = args.output !== GrepOutput.FILES && args.output !== GrepOutput.COUNTS;
  const byDefault = isByLine ? LINES_DEFAULT : FILES_DEFAULT;
  return {
    pattern: args.pattern,
    ignoreCase: args.ignoreCase,
    multiline: args.multiline,
    linesBefore: isByLine ? Math.min(args.linesBefore, CONTEXT_MAX) : 0,
    linesAfter: isByLine ? Math.min(args.linesAfter, CONTEXT_MAX) : 0,
    output: args.output,
    resultsMax: args.resultsMax === 0 ? byDefault : Math.min(args.resultsMax, RESULTS_MAX),
  };
}
