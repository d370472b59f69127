/**
 * Three nodes as processes on a real PostgreSQL, behind a round-robin proxy: a storm of kills and stops, and one fault of each other kind. `npm run nodes` does as many as you like.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { Cli } from "../cli/cli-process.ts";
import { type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { runCampaign } from "./campaign.ts";
import { sharedSecrets } from "./cluster.ts";
import { startNode } from "./processes.ts";
import { runStorm } from "./storm.ts";

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.close());

/** Two, so that neither is long on a busy machine. */
for (const storm of ["one storm", "another"]) {
  test(`clients of three nodes lose nothing in ${storm} of 30 kills of nodes, 10 sleeps longer than the lease and 5 kills of PostgreSQL`, async (t) => {
    const { streams } = await runStorm(t, postgres, { kills: 30, sleeps: 10, databaseKills: 5 });
    assert.equal(streams, 84);
  });
}

test("clients of three nodes lose nothing when a node is drained and when its network to PostgreSQL is cut, late or half open", async (t) => {
  const { streams } = await runCampaign(t, postgres, { drains: 1, cuts: 1, delays: 1, halfOpens: 1 });
  assert.equal(streams, 16);
});

test("a node with another home key is refused at its start, with what to do", async (t) => {
  const url = await postgres.newDatabase();
  const env = sharedSecrets();
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
