/**
 * Bugs planted in the agent and in the client's turns: a crash, where it was noticed last time, notices each again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readCaught } from "./mutants/record.ts";
import { hunt } from "./mutants/start-hunt.ts";
import { AGENT_MUTANTS } from "./mutants/table-agent.ts";

/** Where a changed turn has moved the point, a look around finds it. */
const TRIES = 100;

test("each bug that is planted in the agent is noticed", { concurrency: 2 }, async (t) => {
  const caught = readCaught();
  await Promise.all(
    AGENT_MUTANTS.map((mutant) =>
      t.test(`${mutant.breaks}: ${mutant.name}`, async (one) => {
        const found = await hunt(mutant, caught.get(mutant.name)?.seed ?? 0, TRIES);
        assert.ok(found !== undefined, "nobody noticed it");
        one.diagnostic(`point ${found.seed}: ${found.by}`);
      }),
    ),
  );
});
