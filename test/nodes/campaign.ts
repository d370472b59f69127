/**
 * A campaign of faults against three nodes: nodes are killed, stopped for longer than their lease and drained, PostgreSQL is killed, the network between a node and PostgreSQL is late or half open, each in every phase of a turn with a tool.
 *
 * The fault meets the node that runs the stream that is looked at. After each one the checker reads the database and the transcripts of all clients.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { openNetwork } from "../../src/cli/demo/network.ts";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import type { Cleanup } from "../cleanup.ts";
import { asked, type PostgresServer } from "../store/postgres/server.ts";
import { type DatabaseLink, openDatabaseLink } from "./database-link.ts";
import {
  checkTranscript,
  ClusterClient,
  type ClusterNode,
  LEASE_MS,
  type Phase,
  PHASES,
  startNode,
} from "./processes.ts";

const KINDS = ["kills", "sleeps", "drains", "databaseKills", "delays", "halfOpens"] as const;
const CLIENTS = 4;
/** Each way, so that a commit takes a third of a lease. */
const DELAY_MS = 250;

/** How often each fault happens. */
export interface FaultCounts {
  readonly kills: number;
  readonly sleeps: number;
  readonly drains: number;
  readonly databaseKills: number;
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
  const links = await Promise.all([0, 1, 2].map(() => openDatabaseLink(postgres.port)));
  t.after(async () => void (await Promise.all(links.map((link) => link.close()))));
  const nodes = await Promise.all(
    links.map((link) => startNode(t, url.replace(`:${postgres.port}/`, `:${link.port}/`), env)),
  );
  const proxy = await openNetwork();
  t.after(() => proxy.close());
  proxy.targetPorts = nodes.map(({ port }) => port);
  const store = await openPostgresStore(url);
  t.after(() => store.close());
  /** The node that runs the stream, by the database. */
  const hostOf = async (name: string): Promise<ClusterNode> => {
    const [row] = await asked(url, `SELECT host_id FROM holdfast.streams WHERE idempotency_key = '${name}'`);
    return nodes.find(({ hostId }) => hostId === row?.["host_id"]) ?? assert.fail("a node runs the stream");
  };
  const linkOf = async (name: string): Promise<DatabaseLink> =>
    links[nodes.indexOf(await hostOf(name))] ?? assert.fail("each node has a link");
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
    const apiKey = env["HOLDFAST_API_KEY"] ?? "";
    const clients = Array.from(
      { length: CLIENTS },
      () => new ClusterClient(`http://127.0.0.1:${proxy.port}`, apiKey),
    );
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

  for (let round = 0; Object.values(counts).some((count) => count > round); round++) {
    for (const [at, kind] of KINDS.entries()) {
      // Each fault meets the phases in turn, and not all of them the same one.
      if (counts[kind] > round) await meet(kind, PHASES[(round + at) % PHASES.length] ?? "tool");
    }
  }
  for (const kind of KINDS)
    if (counts[kind] >= PHASES.length)
      for (const phase of PHASES) assert.ok(met.has(`${kind} in ${phase}`), `${kind} never met ${phase}`);
  const [row] = await asked(url, "SELECT coalesce(last_value, 0) AS count FROM holdfast.letters_number_seq");
  const letters = Number(row?.["count"]);
  assert.ok(letters > 0, "clients were attached to nodes that did not run their streams");
  return { met: Object.fromEntries(met), streams, letters };
}
