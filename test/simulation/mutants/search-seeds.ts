/**
 * Looks for the seed that notices a planted bug: the known one first, then one after the other. Prints the seed and what it saw.
 */
import { WorldFailure } from "../world/index.ts";
import { checkRuns } from "./check-runs.ts";

/** Reads from the command line which seed is known (0: none) and how many others are tried. Ends the process. */
export async function searchSeeds(run: (seed: number) => Promise<unknown>): Promise<never> {
  const [known = 0, seeds = 0] = process.argv.slice(2).map(Number);
  let caught = known === 0 ? undefined : await attempt(run, known);
  for (let seed = 1; caught === undefined && seed <= seeds; seed++) caught = await attempt(run, seed);
  process.stdout.write(`${caught ?? "none\tno seed noticed it"}\n`);
  // Worlds that were broken off leave promises behind that nothing will settle.
  process.exit(0);
}

async function attempt(run: (seed: number) => Promise<unknown>, seed: number): Promise<string | undefined> {
  try {
    await run(seed);
    return undefined;
  } catch (failure) {
    if (!(failure instanceof WorldFailure)) throw failure;
    checkRuns(failure);
    const cause = failure.cause instanceof Error ? failure.cause.message : String(failure.cause);
    return `${seed}\t${cause.replaceAll(/[\t\n]/g, " ")}`;
  }
}
