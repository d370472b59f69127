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
  const once = { kills: 1, sleeps: 1, drains: 1, databaseKills: 1, delays: 1, halfOpens: 1 };
  const { streams } = await runCampaign(t, postgres, once);
  assert.equal(streams, 24);
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
