/**
 * Three nodes as processes on a real PostgreSQL, behind a round-robin proxy: one fault of each kind. `npm run nodes` does as many as you like.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { Cli } from "../cli/cli-process.ts";
import { type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { runCampaign, sharedSecrets } from "./campaign.ts";
import { startNode } from "./processes.ts";

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.close());

test("clients of three nodes lose nothing when nodes are killed or stopped and when PostgreSQL is killed", async (t) => {
  const { streams } = await runCampaign(t, postgres, { kills: 1, sleeps: 1, drains: 1, databaseKills: 1 });
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
