/**
 * Runs seeds until one notices the bug that `plant.ts` has planted; prints the seed and what it saw.
 */
import { runSeed } from "../scenario.ts";
import { WorldFailure } from "../world/index.ts";

const seeds = Number(process.argv[2]);
let caught = "none\tno seed noticed it";
for (let seed = 1; seed <= seeds && caught.startsWith("none"); seed++) {
  try {
    await runSeed(seed);
  } catch (failure) {
    if (!(failure instanceof WorldFailure)) throw failure;
    const cause = failure.cause instanceof Error ? failure.cause.message : String(failure.cause);
    caught = `${seed}\t${cause.replaceAll(/[\t\n]/g, " ")}`;
  }
}
process.stdout.write(`${caught}\n`);
process.exit(0);
