/** Two nodes of a gateway on one database, seed by seed: some that found something, and what they must have met. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { NODES_KINDS, runNodesSeed } from "./nodes-scenario.ts";

const SEEDS = [1, 8, 21, 22, 25, 29, 35, 39, 82, 90, 119, 220, 358, 588, 628, 1_000_050];

test("two nodes on one database: an answer is the same at both, asked for once, and every client gets its own", async () => {
  const met = new Set<string>();
  const hashes = new Map<number, string>();
  for (const seed of SEEDS) {
    const { hits, traceHash } = await runNodesSeed(seed);
    hashes.set(seed, traceHash);
    for (const kind of Object.keys(hits)) met.add(kind);
  }
  for (const kind of NODES_KINDS) assert.ok(met.has(kind), `${kind} was met`);
  assert.equal((await runNodesSeed(35)).traceHash, hashes.get(35), "a seed is the same every time");
});
