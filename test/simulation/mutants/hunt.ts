/**
 * Runs seeds until one notices the bug that `plant.ts` has planted; prints the seed and what it saw.
 * The seed that noticed it last time goes first.
 */
import { runSeed } from "../scenario.ts";
import { WorldFailure } from "../world/index.ts";

const [known, seeds] = process.argv.slice(2).map(Number);

let caught = known === undefined || known === 0 ? undefined : await attempt(known);
for (let seed = 1; caught === undefined && seed <= (seeds ?? 0); seed++) caught = await attempt(seed);
process.stdout.write(`${caught ?? "none\tno seed noticed it"}\n`);
// Worlds that were broken off leave promises behind that nobody will settle.
process.exit(0);

async function attempt(seed: number): Promise<string | undefined> {
  try {
    await runSeed(seed);
    return undefined;
  } catch (failure) {
    if (!(failure instanceof WorldFailure)) throw failure;
    const cause = failure.cause instanceof Error ? failure.cause.message : String(failure.cause);
    return `${seed}\t${cause.replaceAll(/[\t\n]/g, " ")}`;
  }
}
