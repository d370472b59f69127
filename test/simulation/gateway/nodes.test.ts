/** Two nodes of a gateway on one database, seed by seed: some that found something, and what they must have met. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runNodesSeed } from "./nodes-scenario.ts";

/** 21, 25, 27: a node knew a session as waiting whose results another one had taken and died with. 23, 35: `/events` told the answer before the latest. */
const SEEDS = [21, 23, 25, 27, 35];

const KINDS = ["answer", "results", "events", "replayed", "broken"].map(
  (kind) => `gateway_nodes.got.${kind}`,
);

test("two nodes on one database: an answer is the same at both, asked for once, and every client gets its own", async () => {
  const met = new Set<string>();
  const hashes = new Map<number, string>();
  for (const seed of SEEDS) {
    const { hits, traceHash } = await runNodesSeed(seed);
    hashes.set(seed, traceHash);
    for (const kind of Object.keys(hits)) met.add(kind);
  }
  for (const kind of [...KINDS, "gateway_nodes.fault.slept", "gateway_nodes.fault.closed", "process.crash"])
    assert.ok(met.has(kind), `${kind} was met`);
  assert.equal((await runNodesSeed(35)).traceHash, hashes.get(35), "a seed is the same every time");
});
