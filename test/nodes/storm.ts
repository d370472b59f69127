/**
 * A storm of faults over three nodes that stay the same: nodes are killed and stopped for longer than their lease, several at a time, and PostgreSQL is killed in between, with streams in
 * every phase of a turn.
 *
 * It comes in waves. In each one six clients converse; three faults wait for three of the streams, each for a phase, and meet the node that runs its stream then. A wave is over
 * when all its streams have ended, so a stream meets three faults at most, and a step is begun anew as often as it may be. A campaign of single faults takes an hour for what a storm has
 * in two minutes.
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cleanup } from "../cleanup.ts";
import type { PostgresServer } from "../store/postgres/server.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { type ClusterClient, type ClusterNode, LEASE_MS, type Phase, PHASES } from "./processes.ts";

export interface StormCounts {
  readonly kills: number;
  readonly sleeps: number;
  readonly databaseKills: number;
}

export interface StormReport {
  readonly waves: number;
  readonly streams: number;
  readonly letters: number;
  /** By fault and phase: how many streams of that phase a fault met. */
  readonly met: Readonly<Record<string, number>>;
}

const FAULTS_A_WAVE = 3;
const CLIENTS = 6;

/** Rejects with what the checker found, and when a kind of fault has not met every phase. */
export async function runStorm(
  t: Cleanup,
  postgres: PostgresServer,
  counts: StormCounts,
  say: (line: string) => void = () => undefined,
): Promise<StormReport> {
  const cluster = await openCluster(t, postgres);
  const storm = new Storm(cluster, postgres);
  const waves = Math.ceil((counts.kills + counts.sleeps) / FAULTS_A_WAVE);
  const left = { ...counts };
  for (let wave = 0; wave < waves; wave++) {
    // Evenly over the waves, whatever their number is.
    const isDue = (kind: keyof StormCounts): boolean =>
      counts[kind] - left[kind] < Math.ceil((counts[kind] * (wave + 1)) / waves);
    const faults: ("kills" | "sleeps")[] = [];
    while (faults.length < FAULTS_A_WAVE && left.kills + left.sleeps > 0) {
      const kind = left.sleeps > 0 && (isDue("sleeps") || left.kills === 0) ? "sleeps" : "kills";
      faults.push(kind);
      left[kind]--;
    }
    const hasDatabaseKill = left.databaseKills > 0 && isDue("databaseKills");
    if (hasDatabaseKill) left.databaseKills--;
    await storm.wave(wave, faults, hasDatabaseKill);
    say(
      `wave ${wave + 1} of ${waves}: ${[...faults, ...(hasDatabaseKill ? ["databaseKills"] : [])].join(", ")}`,
    );
  }
  for (const kind of ["kills", "sleeps", "databaseKills"] as const)
    if (counts[kind] >= PHASES.length)
      for (const phase of PHASES)
        assert.ok(storm.met.has(`${kind} in ${phase}`), `${kind} never met ${phase}`);
  const letters = await cluster.letters();
  assert.ok(waves === 0 || letters > 0, "clients were attached to nodes that did not run their streams");
  return { waves, streams: waves * CLIENTS, letters, met: Object.fromEntries(storm.met) };
}

class Storm {
  readonly met = new Map<string, number>();
  readonly #begun = new Map<keyof StormCounts, number>();
  #databaseKills = 0;
  readonly #cluster: Cluster;
  readonly #postgres: PostgresServer;
  /** A node, or the database, that has a fault has it until it is up again. */
  readonly #busy = new Map<ClusterNode | PostgresServer, Promise<void>>();

  constructor(cluster: Cluster, postgres: PostgresServer) {
    this.#cluster = cluster;
    this.#postgres = postgres;
  }

  async wave(wave: number, faults: readonly ("kills" | "sleeps")[], hasDatabaseKill: boolean): Promise<void> {
    const clients = Array.from({ length: CLIENTS }, () => this.#cluster.client());
    const conversations = clients.map((client) => client.converse());
    const met = faults.map(async (kind, at) => {
      const node = await this.#hostOf(await this.#reached(clients[at], this.#phaseOf(kind)));
      await this.#inTurn(node, async () => {
        await this.#note(kind, clients, node);
        await this.#meet(kind, node);
      });
    });
    if (hasDatabaseKill) met.push(this.#killDatabase(clients));
    const [transcripts] = await Promise.all([Promise.all(conversations), Promise.all(met)]);
    await this.#cluster.check(`wave ${wave}: ${faults.join(", ")}`, clients, transcripts);
    await Promise.all(clients.map((client) => client.close()));
  }

  /** Each kind of fault waits for the phases in turn. */
  #phaseOf(kind: keyof StormCounts): Phase {
    const at = this.#begun.get(kind) ?? 0;
    this.#begun.set(kind, at + 1);
    return PHASES[at % PHASES.length] ?? "tool";
  }

  #reached(client: ClusterClient | undefined, phase: Phase): Promise<string> {
    return client?.reached(phase) ?? assert.fail("there is such a client");
  }

  async #meet(kind: "kills" | "sleeps", node: ClusterNode): Promise<void> {
    if (kind === "sleeps") return node.sleep(LEASE_MS + 500);
    await node.kill();
    await this.#start(node);
  }

  /** As a supervisor does it: a node that finds no database ends, and is started again. */
  async #start(node: ClusterNode): Promise<void> {
    for (;;) {
      await this.#busy.get(this.#postgres);
      const before = this.#databaseKills;
      try {
        return await node.start();
      } catch (error) {
        if (before === this.#databaseKills && !this.#busy.has(this.#postgres)) throw error;
      }
    }
  }

  async #killDatabase(clients: readonly ClusterClient[]): Promise<void> {
    await this.#reached(clients[FAULTS_A_WAVE], this.#phaseOf("databaseKills"));
    await this.#inTurn(this.#postgres, async () => {
      await this.#note("databaseKills", clients, undefined);
      this.#databaseKills++;
      await this.#postgres.kill();
      await this.#postgres.start();
    });
  }

  /** The phases of the streams that a fault meets: those of one node, or all. */
  async #note(kind: string, clients: readonly ClusterClient[], node: ClusterNode | undefined): Promise<void> {
    const running = clients.filter(({ phase }) => phase !== undefined);
    const hosts = await Promise.all(
      running.map(async ({ name = "" }) => (node === undefined ? undefined : this.#hostOf(name))),
    );
    for (const [at, { phase }] of running.entries()) {
      if (phase === undefined || hosts[at] !== node) continue;
      const name = `${kind} in ${phase}`;
      this.met.set(name, (this.met.get(name) ?? 0) + 1);
    }
  }

  /** Waits for a database that was killed, also while it was asked. */
  async #hostOf(name: string): Promise<ClusterNode> {
    for (;;) {
      await this.#busy.get(this.#postgres);
      try {
        return await this.#cluster.hostOf(name);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
      }
      await sleep(20);
    }
  }

  async #inTurn(what: ClusterNode | PostgresServer, fault: () => Promise<void>): Promise<void> {
    const before = this.#busy.get(what);
    const now = (async () => {
      await before;
      await fault();
    })();
    this.#busy.set(what, now);
    await now;
    if (this.#busy.get(what) === now) this.#busy.delete(what);
  }
}
