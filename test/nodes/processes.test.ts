/**
 * Three nodes as processes on a real PostgreSQL, behind a round-robin proxy: nodes are killed and stopped for longer than their lease, PostgreSQL is killed, and the checker finds
 * nothing lost, doubled or reordered. `HOLDFAST_NODE_ROUNDS` makes it longer.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import { Cli } from "../cli/cli-process.ts";
import { asked, type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import {
  checkTranscript,
  ClusterClient,
  type ClusterNode,
  LEASE_MS,
  PHASES,
  roundRobin,
  startNode,
} from "./processes.ts";

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.close());

const ROUNDS = Number(process.env["HOLDFAST_NODE_ROUNDS"] ?? 1);
const CLIENTS = 4;

function shared(): Readonly<Record<string, string>> {
  return {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: "one-api-key-for-all-nodes",
  };
}

test("clients of three nodes lose nothing when nodes are killed or stopped and when PostgreSQL is killed", async (t) => {
  const url = await postgres.newDatabase();
  const env = shared();
  const first = await startNode(t, url, env);
  const nodes = [first, ...(await Promise.all([startNode(t, url, env), startNode(t, url, env)]))];
  const proxy = await roundRobin(() => nodes.map(({ port }) => port));
  t.after(() => proxy.close());
  const store = await openPostgresStore(url);
  t.after(() => store.close());
  const letters = async (): Promise<number> => {
    const [row] = await asked(
      url,
      "SELECT coalesce(last_value, 0) AS count FROM holdfast.letters_number_seq",
    );
    return Number(row?.["count"]);
  };
  /** The node that runs the stream, by the database. */
  const hostOf = async (name: string): Promise<(typeof nodes)[number]> => {
    const [row] = await asked(url, `SELECT host_id FROM holdfast.streams WHERE idempotency_key = '${name}'`);
    return nodes.find(({ hostId }) => hostId === row?.["host_id"]) ?? assert.fail("a node runs the stream");
  };
  const faults: Readonly<Record<string, (name: string) => Promise<void>>> = {
    kill: async (name) => {
      const node = await hostOf(name);
      await node.kill();
      await node.start();
    },
    sleep: async (name) => (await hostOf(name)).sleep(LEASE_MS + 700),
    drain: async (name) => {
      const node = await hostOf(name);
      await node.drain();
      await node.start();
    },
    database: async () => {
      await postgres.kill();
      await postgres.start();
    },
  };
  let turn = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const [kind, fault] of Object.entries(faults)) {
      const phase = PHASES[turn++ % PHASES.length] ?? "first words";
      const clients = Array.from(
        { length: CLIENTS },
        () => new ClusterClient(proxy.url, env["HOLDFAST_API_KEY"] ?? ""),
      );
      const [met] = clients;
      assert.ok(met !== undefined);
      const conversations = clients.map((client) => client.converse());
      await fault(await met.reached(phase));
      const transcripts = await Promise.all(conversations);
      for (const [at, transcript] of transcripts.entries()) {
        const { homeKey } = clients[at] ?? assert.fail();
        await checkTranscript(store.streams, homeKey, transcript).catch((cause: unknown) => {
          throw new Error(`${kind} in ${phase}`, { cause });
        });
      }
      await Promise.all(clients.map((client) => client.close()));
    }
  }
  assert.ok((await letters()) > 0, "clients were attached to nodes that did not run their streams");
});

test("a node with another home key is refused at its start, with what to do", async (t) => {
  const url = await postgres.newDatabase();
  const env = shared();
  await startNode(t, url, env);
  const other = await new Cli(t).run(["serve", "--port", "0", "--no-line", "--store", url], {
    ...env,
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
  });
  assert.notEqual(other.code, 0);
  assert.match(
    other.stderr,
    /this node has another home key than the nodes that share this PostgreSQL: set HOLDFAST_HOME_KEY/,
  );
});

test("one node at a time serves the gateway; another takes it over, and finds the answers that were given", async (t) => {
  const url = await postgres.newDatabase();
  const env = shared();
  const chat = ({ running }: ClusterNode): Promise<Response> =>
    fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${env["HOLDFAST_API_KEY"]}`,
        "content-type": "application/json",
        "idempotency-key": "one",
      },
      body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: "count to 5" }] }),
    });
  const first = await startNode(t, url, env);
  const second = await startNode(t, url, env);
  const answer = await (await chat(first)).text();
  assert.match(answer, /"content":"1 2 3 4 5 "/);
  const elsewhere = await chat(second);
  assert.equal(elsewhere.status, 503);
  assert.equal(elsewhere.headers.get("retry-after"), "2");
  assert.match(await elsewhere.text(), /another node of this installation serves the gateway/);
  const models = await fetch(`${second.running.url}/v1/models`, {
    headers: { authorization: `Bearer ${env["HOLDFAST_API_KEY"]}` },
  });
  assert.match(await models.text(), /rehearsal/);
  await first.kill();
  let again = await chat(second);
  while (again.status === 503) again = await chat(second);
  assert.match(await again.text(), /"content":"1 2 3 4 5 "/);
  const [row] = await asked(url, "SELECT count(*) AS streams FROM holdfast.streams");
  assert.equal(Number(row?.["streams"]), 1, "the retry was answered from the first answer");
});
