/**
 * Runs seeds of the gateway until one notices the bug that `plant.ts` has planted; prints the seed and what it saw.
 * The seed that noticed it last time goes first.
 */
import { runGatewaySeed } from "../gateway/scenario.ts";
import { searchSeeds } from "./search-seeds.ts";

await searchSeeds(runGatewaySeed);
