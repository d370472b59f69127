/**
 * Client and server killed with SIGKILL at random moments: nothing lost, doubled or reordered, no exec twice.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { obstacle } from "./full-disk.ts";
import { runKills } from "./run.ts";

for (const transport of ["http2", "fetch"] as const) {
  test(`A1, A3, B1, B4, C1: 25 kills of real processes over ${transport} lose, double and reorder nothing`, async (t) => {
    const report = await runKills({ cycles: 25, streams: 4, transport, say: () => undefined });
    t.diagnostic(JSON.stringify(report));
    // A run in which nothing happened would prove nothing.
    assert.ok(report.clientKills > 0 && report.serverKills > 0 && report.streams > 3 && report.effects > 0);
  });
}

test(
  "A1, A3, B1, F5: a disk that is full again and again loses, doubles and reorders nothing, in one and the same process",
  {
    skip: obstacle() ?? false,
  },
  async (t) => {
    const report = await runKills({
      cycles: 0,
      streams: 4,
      fills: 6,
      transport: "http2",
      say: () => undefined,
    });
    t.diagnostic(JSON.stringify(report));
    assert.equal(report.serverKills, 0);
    assert.equal(report.reopened, 6);
    assert.ok(report.chunks > 0 && report.streams > 3);
  },
);
