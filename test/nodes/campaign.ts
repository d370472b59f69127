/**
 * A campaign of single faults against three nodes, beside the storm of kills: nodes are drained, and the network between a node and PostgreSQL is cut, late or half open, each in every phase of a turn with a tool.
 *
 * The fault meets the node that runs the stream that is looked at. Each stream is also read along at another connection, which the proxy mostly gives to another node. After each one the checker reads the database and the transcripts of all clients.
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cleanup } from "../cleanup.ts";
import type { PostgresServer } from "../store/postgres/server.ts";
import { openCluster } from "./cluster.ts";
import type { DatabaseLink } from "./database-link.ts";
import { LEASE_MS, type Phase, PHASES } from "./processes.ts";

const KINDS = ["drains", "cuts", "delays", "halfOpens"] as const;
const CLIENTS = 4;
/** Each way, so that a commit takes a third of a lease. */
const DELAY_MS = 250;

/** How often each fault happens. */
export interface FaultCounts {
  readonly drains: number;
  /** The connections between the node and PostgreSQL break, all at once. */
  readonly cuts: number;
  /** What passes between the node and PostgreSQL is late. */
  readonly delays: number;
  /** Nothing passes between them, for longer than the lease, and the connections stay. */
  readonly halfOpens: number;
}

export interface CampaignReport {
  /** By fault and phase. */
  readonly met: Readonly<Record<string, number>>;
  readonly streams: number;
  readonly letters: number;
}

/** Rejects with what the checker found, and when a fault that happens three times has not met every phase. */
export async function runCampaign(
  t: Cleanup,
  postgres: PostgresServer,
  counts: FaultCounts,
  say: (line: string) => void = () => undefined,
): Promise<CampaignReport> {
  const cluster = await openCluster(t, postgres);
  const linkOf = async (name: string): Promise<DatabaseLink> => cluster.linkOf(await cluster.hostOf(name));
  const faults: Readonly<Record<keyof FaultCounts, (name: string) => Promise<void>>> = {
    drains: async (name) => {
      const node = await cluster.hostOf(name);
      await node.drain();
      await node.start();
    },
    cuts: async (name) => (await linkOf(name)).cut(),
    delays: async (name) => {
      const link = await linkOf(name);
      link.delayMs = DELAY_MS;
      await sleep(LEASE_MS + 700);
      link.delayMs = 0;
    },
    halfOpens: async (name) => {
      const link = await linkOf(name);
      link.halfOpen();
      await sleep(LEASE_MS + 700);
      link.mend();
    },
  };
  const met = new Map<string, number>();
  let streams = 0;

  async function meet(kind: keyof FaultCounts, phase: Phase): Promise<void> {
    const clients = Array.from({ length: CLIENTS }, () => cluster.client());
    const [looked] = clients;
    assert.ok(looked !== undefined);
    const conversations = clients.map((client) => client.converse());
    const readings = clients.map((client) => client.readAlong());
    await faults[kind](await looked.reached(phase));
    const transcripts = await Promise.all(conversations);
    await cluster.check(`${kind} in ${phase}`, clients, transcripts);
    for (const [at, reading] of readings.entries())
      assert.deepEqual(
        await reading,
        transcripts[at]?.events,
        `D2: who reads along during ${kind} in ${phase} reads the same`,
      );
    await Promise.all(clients.map((client) => client.close()));
    streams += clients.length;
    const name = `${kind} in ${phase}`;
    met.set(name, (met.get(name) ?? 0) + 1);
    say(`${name}: ${met.get(name)}`);
  }

  for (let round = 0; Object.values(counts).some((count) => count > round); round++) {
    for (const [at, kind] of KINDS.entries()) {
      // Each fault meets the phases in turn, and not all of them the same one.
      if (counts[kind] > round) await meet(kind, PHASES[(round + at) % PHASES.length] ?? "tool");
    }
  }
  for (const kind of KINDS)
    if (counts[kind] >= PHASES.length)
      for (const phase of PHASES) assert.ok(met.has(`${kind} in ${phase}`), `${kind} never met ${phase}`);
  const letters = await cluster.letters();
  assert.ok(streams === 0 || letters > 0, "clients were attached to nodes that did not run their streams");
  return { met: Object.fromEntries(met), streams, letters };
}
