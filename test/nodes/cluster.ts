/**
 * Three nodes as processes on one PostgreSQL behind a round-robin proxy, each over a network of its own to the database; what campaigns of faults have in common.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { openNetwork } from "../../src/cli/demo/network.ts";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import type { Cleanup } from "../cleanup.ts";
import { asked, type PostgresServer } from "../store/postgres/server.ts";
import { type DatabaseLink, openDatabaseLink } from "./database-link.ts";
import { checkTranscript, ClusterClient, type ClusterNode, startNode, type Transcript } from "./processes.ts";

const PATIENCE_MS = 60_000;

export interface Cluster {
  readonly nodes: readonly ClusterNode[];
  linkOf(node: ClusterNode): DatabaseLink;
  /** The node that runs the stream, by the database. */
  hostOf(name: string): Promise<ClusterNode>;
  client(): ClusterClient;
  /** Holds what the clients saw against what the database has. */
  check(what: string, clients: readonly ClusterClient[], seen: readonly Transcript[]): Promise<void>;
  /** How many letters nodes have sent each other. */
  letters(): Promise<number>;
}

export function sharedSecrets(): Readonly<Record<string, string>> {
  return {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: "one-api-key-for-all-nodes",
  };
}

export async function openCluster(t: Cleanup, postgres: PostgresServer): Promise<Cluster> {
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
  const store = await openPostgresStore(url, { patienceMs: PATIENCE_MS });
  t.after(() => store.close());
  return {
    nodes,
    linkOf: (node) => links[nodes.indexOf(node)] ?? assert.fail("each node has a link"),
    async hostOf(name) {
      const [row] = await asked(
        url,
        `SELECT host_id FROM holdfast.streams WHERE idempotency_key = '${name}'`,
      );
      return nodes.find(({ hostId }) => hostId === row?.["host_id"]) ?? assert.fail("a node runs the stream");
    },
    client: () => new ClusterClient(`http://127.0.0.1:${proxy.port}`, env["HOLDFAST_API_KEY"] ?? ""),
    async check(what, clients, seen) {
      for (const [at, transcript] of seen.entries()) {
        const { homeKey } = clients[at] ?? assert.fail("each transcript is a client's");
        await checkTranscript(store.streams, homeKey, transcript).catch((cause: unknown) => {
          throw new Error(what, { cause });
        });
      }
    },
    async letters() {
      const [row] = await asked(
        url,
        // A sequence that gave no number yet has its first one as its last.
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS count FROM holdfast.letters_number_seq",
      );
      return Number(row?.["count"]);
    },
  };
}
