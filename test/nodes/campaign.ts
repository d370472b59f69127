/**
 * A campaign of faults against three nodes: nodes are killed, stopped for longer than their lease and drained, PostgreSQL is killed, each in every phase of a turn with a tool.
 *
 * The fault meets the node that runs the stream that is looked at. After each one the checker reads the database and the transcripts of all clients.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import type { Cleanup } from "../cleanup.ts";
import { asked, type PostgresServer } from "../store/postgres/server.ts";
import {
  checkTranscript,
  ClusterClient,
  type ClusterNode,
  LEASE_MS,
  type Phase,
  PHASES,
  roundRobin,
  startNode,
} from "./processes.ts";

const CLIENTS = 4;

/** How often each fault happens. */
export interface FaultCounts {
  readonly kills: number;
  readonly sleeps: number;
  readonly drains: number;
  readonly databaseKills: number;
}

export interface CampaignReport {
  /** By fault and phase. */
  readonly met: Readonly<Record<string, number>>;
  readonly streams: number;
  readonly letters: number;
}

export function sharedSecrets(): Readonly<Record<string, string>> {
  return {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: "one-api-key-for-all-nodes",
  };
}

/** Rejects with what the checker found, and when a fault that happens three times has not met every phase. */
export async function runCampaign(
  t: Cleanup,
  postgres: PostgresServer,
  counts: FaultCounts,
  say: (line: string) => void = () => undefined,
): Promise<CampaignReport> {
  const url = await postgres.newDatabase();
  const env = sharedSecrets();
  const first = await startNode(t, url, env);
  const nodes = [first, ...(await Promise.all([startNode(t, url, env), startNode(t, url, env)]))];
  const proxy = await roundRobin(() => nodes.map(({ port }) => port));
  t.after(() => proxy.close());
  const store = await openPostgresStore(url);
  t.after(() => store.close());
  /** The node that runs the stream, by the database. */
  const hostOf = async (name: string): Promise<ClusterNode> => {
    const [row] = await asked(url, `SELECT host_id FROM holdfast.streams WHERE idempotency_key = '${name}'`);
    return nodes.find(({ hostId }) => hostId === row?.["host_id"]) ?? assert.fail("a node runs the stream");
  };
  const faults: Readonly<Record<keyof FaultCounts, (name: string) => Promise<void>>> = {
    kills: async (name) => {
      const node = await hostOf(name);
      await node.kill();
      await node.start();
    },
    sleeps: async (name) => (await hostOf(name)).sleep(LEASE_MS + 700),
    drains: async (name) => {
      const node = await hostOf(name);
      await node.drain();
      await node.start();
    },
    databaseKills: async () => {
      await postgres.kill();
      await postgres.start();
    },
  };
  const met = new Map<string, number>();
  let streams = 0;

  async function meet(kind: keyof FaultCounts, phase: Phase): Promise<void> {
    const apiKey = env["HOLDFAST_API_KEY"] ?? "";
    const clients = Array.from({ length: CLIENTS }, () => new ClusterClient(proxy.url, apiKey));
    const [looked] = clients;
    assert.ok(looked !== undefined);
    const conversations = clients.map((client) => client.converse());
    await faults[kind](await looked.reached(phase));
    const transcripts = await Promise.all(conversations);
    for (const [at, transcript] of transcripts.entries()) {
      const { homeKey } = clients[at] ?? assert.fail();
      await checkTranscript(store.streams, homeKey, transcript).catch((cause: unknown) => {
        throw new Error(`${kind} in ${phase}`, { cause });
      });
    }
    await Promise.all(clients.map((client) => client.close()));
    streams += clients.length;
    const name = `${kind} in ${phase}`;
    met.set(name, (met.get(name) ?? 0) + 1);
    say(`${name}: ${met.get(name)}`);
  }

  let turn = 0;
  const left = { ...counts };
  while (Object.values(left).some((count) => count > 0)) {
    for (const kind of ["kills", "sleeps", "drains", "databaseKills"] as const) {
      if (left[kind] === 0) continue;
      left[kind]--;
      // Each fault meets the phases in turn, and not all of them the same one.
      await meet(kind, PHASES[turn++ % PHASES.length] ?? "tool");
    }
    // With a number of faults that the phases divide, the next round would be the same.
    turn++;
  }
  for (const [kind, count] of Object.entries(counts))
    if (count >= 3 * PHASES.length)
      for (const phase of PHASES) assert.ok(met.has(`${kind} in ${phase}`), `${kind} never met ${phase}`);
  const [row] = await asked(url, "SELECT coalesce(last_value, 0) AS count FROM holdfast.letters_number_seq");
  const letters = Number(row?.["count"]);
  assert.ok(letters > 0, "clients were attached to nodes that did not run their streams");
  return { met: Object.fromEntries(met), streams, letters };
}
