/**
 * A rolling restart of nodes that share a PostgreSQL: the one that stops keeps its leases and finishes its answers, and what it has no time for is generated again elsewhere, and counted.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Exchange } from "../gateway/openai-user.ts";
import { asked, type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { CountedProvider, MODEL } from "./counted-provider.ts";
import { type ClusterNode, LEASE_MS, startNode } from "./processes.ts";

const API_KEY = "one-api-key-for-all-nodes";
const COUNTED = "1 2 3 4 5 6 7 8 9 10";

let postgres: PostgresServer;
let url: string;
let provider: CountedProvider;
let stops: ClusterNode;
let stays: ClusterNode;
const ends: (() => unknown)[] = [];

before(async () => {
  postgres = await startPostgres();
  url = await postgres.newDatabase();
  const t = { after: (end: () => unknown) => void ends.unshift(end) };
  provider = await CountedProvider.start(t);
  const env = {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: API_KEY,
    ...provider.env,
  };
  const start = () => startNode(t, url, env, provider.settings);
  [stops, stays] = await Promise.all([start(), start()]);
});
after(async () => {
  for (const end of ends) await end();
  await postgres.close();
});

function ask(content: string): Exchange {
  const body = JSON.stringify({ model: MODEL, messages: [{ role: "user", content }], stream: true });
  return new Exchange(stops.running.url, body, { apiKey: API_KEY });
}

/** An answer that is held in its middle at the node that will stop, and the same as the other node reads it. */
async function begun(content: string): Promise<readonly [Exchange, Exchange]> {
  provider.hold();
  const first = ask(content);
  await first.until("4 5 ");
  const path = `/v1/streams/${await first.streamId()}/events`;
  const rest = new Exchange(stays.running.url, undefined, { apiKey: API_KEY, method: "GET", path });
  await rest.until("4 5 ");
  return [first, rest];
}

/** How many steps the other node has begun anew. */
async function begunAnew(): Promise<number> {
  const headers = { authorization: `Bearer ${API_KEY}` };
  const shown = await (await fetch(`${stays.running.url}/metrics`, { headers })).text();
  const [, count] = /^holdfast_provider_continued_total\{[^}]*how="restart"\} (\d+)$/m.exec(shown) ?? [];
  return Number(count ?? 0);
}

test("a node that drains keeps its lease and finishes its answer, which another node reads meanwhile; it begins no other, and the model is asked once", async () => {
  const answers = await begun("drained");
  const { url: at } = stops.running;
  const ended = stops.drain();
  while ((await fetch(`${at}/ready`)).status !== 503) await sleep(20);
  assert.equal((await ask("drained: another").reply()).status, 503);
  // Longer than a lease that is not renewed.
  await sleep(LEASE_MS + 500);
  const streams = await asked(
    url,
    "SELECT host_id, lease_until_ms > holdfast.now_ms() AS is_held, end_reason FROM holdfast.streams",
  );
  assert.deepEqual(streams, [{ host_id: stops.hostId, is_held: true, end_reason: null }]);
  provider.release();
  for (const answer of answers) {
    const { text, isWhole, body } = await answer.reply();
    assert.ok(isWhole, body);
    assert.equal(text, COUNTED);
  }
  await ended;
  assert.equal(provider.calls("drained"), 1);
  assert.equal(await begunAnew(), 0);
});

test("what a drain has no time for is generated a second time at another node, and counted there", async () => {
  await stops.start(200);
  const [, rest] = await begun("no time");
  await stops.drain();
  provider.release();
  const { text, isWhole, body } = await rest.reply();
  assert.ok(isWhole, body);
  assert.equal(text, COUNTED);
  assert.equal(provider.calls("no time"), 2);
  assert.equal(await begunAnew(), 1);
});
