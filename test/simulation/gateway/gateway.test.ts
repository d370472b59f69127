/**
 * The gateway's simulation itself: a seed is a whole world, and replays.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runGatewaySeed } from "./scenario.ts";

test("a seed of the gateway replays to the identical trace, and another seed does not", async () => {
  const [first, again, other] = [await runGatewaySeed(7), await runGatewaySeed(7), await runGatewaySeed(8)];
  assert.equal(first.traceHash, again.traceHash);
  assert.equal(first.steps, again.steps);
  assert.notEqual(first.traceHash, other.traceHash);
});
