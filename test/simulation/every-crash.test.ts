/**
 * A turn with tools, and one crash: before and after every call that leaves a process.
 *
 * The simulator's campaigns draw their crashes; here none is left out. All checks of the simulator
 * are on, so each of these worlds keeps every invariant and comes to its end.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type CrashPlan, runOneCrash } from "./scenario.ts";

/** Two turns of a few steps in which tools run, some of them with an approval. */
const SEEDS = [2, 11];

for (const who of ["server", "client"] as const) {
  test(`a crash of the ${who} at each of its calls breaks nothing and loses nothing`, async () => {
    for (const seed of SEEDS) {
      const points = (await runOneCrash(seed))[who];
      assert.ok(points > 50, `only ${points} crash points: nothing much happens in seed ${seed}`);
      for (let effect = 1; effect <= points; effect++) {
        for (const when of ["before", "after"] as const) await attempt(seed, { who, effect, when });
      }
    }
  });
}

async function attempt(seed: number, plan: CrashPlan): Promise<void> {
  try {
    await runOneCrash(seed, plan);
  } catch (cause) {
    throw new Error(`seed ${seed}, a crash ${plan.when} call ${plan.effect} of the ${plan.who}`, { cause });
  }
}
