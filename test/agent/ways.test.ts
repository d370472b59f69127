/** A sample of the breaks of `test/agent/ways/table.ts`; `npm run ways` plays all of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CUTS } from "./models/providers/breaking.ts";
import { runWays, sampledCases, SLOW } from "./ways/run.ts";

const SAMPLE = sampledCases();

test("G1: what a provider breaks off is made whole by the best way that there is, with no request too many; a clean error only where the table has one", async () => {
  const quick = SAMPLE.filter(({ how }) => !SLOW.has(how));
  assert.deepEqual(await runWays(quick, 4), []);
});

test("G5: a provider that is silent, or only pings, has broken the answer off like any other", async () => {
  const slow = SAMPLE.filter(({ how }) => SLOW.has(how));
  assert.deepEqual(await runWays(slow, 9), []);
});

test("the sample has every cut", () => {
  assert.deepEqual(new Set(SAMPLE.map(({ how }) => how)), new Set(CUTS));
});
