/**
 * Runs seeds of a gateway on two nodes until one notices the bug that `plant.ts` has planted; prints the seed and what it saw.
 * The seed that noticed it last time goes first.
 */
import { runNodesSeed } from "../gateway/nodes-scenario.ts";
import { searchSeeds } from "./search-seeds.ts";

await searchSeeds(runNodesSeed);
