/**
 * A conversation with tools, `holdfast serve` and its client killed with SIGKILL at random moments: the same text, the same files,
 * no effect twice.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runAgentKills } from "./agent-run.ts";

test("C0, C1, F1: 12 kills of real processes in a conversation with tools change nothing but what is told as unknown", async (t) => {
  const report = await runAgentKills({ cycles: 12, say: () => undefined });
  t.diagnostic(JSON.stringify(report));
  // A run in which nothing happened would prove nothing.
  assert.ok(report.clientKills + report.serverKills >= 12 && report.turns > 1 && report.effects > 3);
});
