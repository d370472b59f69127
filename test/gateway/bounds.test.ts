/**
 * What sessions may cost: how many wait, how long, what they leave on the disk, and what can be read there.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { createAgent } from "../../src/agent/index.ts";
import type { ChatCall } from "../../src/gateway/http/index.ts";
import { GATEWAY_LIMITS } from "../../src/gateway/index.ts";
import { parseChatRequest } from "../../src/gateway/openai/index.ts";
import { parkedBytes } from "../../src/gateway/eviction.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { until } from "../e2e/rig.ts";
import { ALICE_KEY, BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, CHAT, Exchange, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, modelsOf, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const CANARY = "canary-4711-of-a-prompt";

function model(): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? [`${CANARY} said `, { tool: "look", args: { at: CANARY } }]
      : ["Done."],
  );
}

const look = (world: World, name: string, apiKey = ALICE_KEY): Promise<Reply> =>
  new Exchange(world.url, bodyOf([user(`Look ${name}`)]), { apiKey }).reply();

function goOn(world: World, name: string, reply: Reply, apiKey = ALICE_KEY): Promise<Reply> {
  const results = reply.calls.map(({ id }) => result(id, "seen"));
  return new Exchange(world.url, bodyOf([user(`Look ${name}`), said(reply), ...results]), { apiKey }).reply();
}

/** Of one principal, which has half of all. */
const ROOM_FOR_TWO = 2.5 * parkedBytes(1_000);

const parkedIn = ({ gateway }: World): number =>
  Number(/^holdfast_gateway_sessions\{state="parked"\} (\d+)$/m.exec(gateway.metrics())?.[1]);

const streamsOf = ({ gateway }: World): readonly string[] =>
  gateway.sessions.map(({ answer }) => answer.streamId);

test("too many of one principal wait: the oldest ends, others' do not, and its client is served all the same", async (t) => {
  const world = await World.begin(t, model(), { limits: { parkedBytesMax: 2 * ROOM_FOR_TWO } });
  const bobs = await look(world, "bob", BOB_KEY);
  const replies: Reply[] = [];
  for (const name of ["one", "two", "three"]) {
    replies.push(await look(world, name));
    world.nowMs += 1_000;
  }
  const [first, second, third] = replies;
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  await until(() => world.gateway.sessions.length === 3, "one is gone");
  assert.deepEqual(
    streamsOf(world).toSorted(),
    [bobs, second, third].map(({ streamId }) => streamId).toSorted(),
  );
  assert.equal(world.gateway.counters.evicted, 1);
  const fresh = await goOn(world, "one", first);
  assert.equal(fresh.text, "Done.");
  assert.notEqual(fresh.streamId, first.streamId);
  assert.equal((await goOn(world, "two", second)).streamId, second.streamId);
});

test("E8: what waits never exceeds its bounds, not even for a moment", async (t) => {
  const world = await World.begin(t, model(), { limits: { parkedBytesMax: 2 * ROOM_FOR_TWO } });
  let most = 0;
  const over = new AbortController();
  const watched = (async () => {
    while (!over.signal.aborted) {
      most = Math.max(most, parkedIn(world));
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  const replies = await Promise.all(Array.from({ length: 10 }, (_, at) => look(world, `${at}`)));
  assert.ok(replies.every(({ finish }) => finish === "tool_calls"));
  await until(() => world.gateway.sessions.length === 2, "the others are gone");
  over.abort();
  await watched;
  assert.deepEqual([most, parkedIn(world), world.gateway.counters.evicted], [2, 2, 8]);
});

test("a request that is too large is refused, and no session makes room for it", async (t) => {
  const world = await World.begin(t, model(), { limits: { openStreamsMax: 1 } });
  const reply = await look(world, "one");
  const parameters = { type: "object", description: "x".repeat(LIMITS.chunkBytesMax) };
  const tools = [{ type: "function", function: { name: "look", parameters } }];
  const refused = await new Exchange(world.url, bodyOf([user("Look two")], { tools })).reply();
  assert.deepEqual([refused.status, refused.error], [413, "invalid_request_error request_too_large"]);
  assert.equal((await goOn(world, "one", reply)).streamId, reply.streamId);
  assert.equal(world.gateway.counters.evicted, 0);
});

test("F1: nobody comes with the results: the session ends by itself, and leaves no row", async (t) => {
  const world = await World.begin(t, model(), { limits: { sessionTtlMs: 40 } });
  const reply = await look(world, "one");
  assert.equal(reply.finish, "tool_calls");
  await until(() => world.gateway.counters.expired === 1, "it expires");
  await until(() => world.gateway.sessions.length === 0, "it is gone");
  for (const table of ["gateway_sessions", "journal_heads", "journal_records"])
    await until(async () => (await world.rows(table)).length === 0, `${table} is empty`);
});

test("F2: a session keeps no journal; its rows end with the session's time", async (t) => {
  const world = await World.begin(t, model());
  const reply = await look(world, "one");
  await goOn(world, "one", reply);
  await until(() => world.gateway.sessions.length === 0, "it is over");
  for (const table of ["journal_heads", "journal_records"])
    assert.deepEqual(await world.rows(table), [], table);
  world.nowMs += 24 * 60 * 60_000;
  await world.tables.sweep(10_000);
  for (const table of ["gateway_sessions", "gateway_index", "gateway_responses"])
    assert.deepEqual(await world.rows(table), [], table);
});

test("E4: what was said is neither in the log nor readable in any row, and names tell nothing", async (t) => {
  const world = await World.begin(t, model());
  const reply = await look(world, CANARY);
  assert.match(reply.body, new RegExp(CANARY));
  const idempotencyKey = "canary-4711-of-a-key";
  const headers = { "idempotency-key": idempotencyKey };
  await new Exchange(world.url, bodyOf([user(`Hello ${CANARY}`)]), { headers }).reply();
  const [call] = reply.calls;
  assert.ok(call !== undefined);
  const secrets = [CANARY, idempotencyKey, call.id, ALICE_KEY];
  for (const table of ["gateway_sessions", "gateway_index", "gateway_responses"]) {
    const rows = await world.rows(table);
    assert.ok(rows.length > 0, `${table} is empty`);
    for (const { key, value } of rows) {
      const text = `${key} ${Buffer.from(value).toString("latin1")}`;
      for (const secret of secrets) assert.ok(!text.includes(secret), `${secret} in ${table}`);
      if (table.startsWith("gateway")) assert.match(key, /^(?:[0-9a-f]{32}){1,2}$/);
    }
  }
  for (const line of world.logLines) for (const secret of secrets) assert.ok(!line.includes(secret), line);
});

test("a damaged row costs its session, not the start and not the request", async (t) => {
  const world = await World.begin(t, model());
  const reply = await look(world, "one");
  for (const { key } of await world.rows("gateway_sessions"))
    await world.tables.put({ table: "gateway_sessions", key }, new Uint8Array(80));
  await world.restart();
  const answer = await goOn(world, "one", reply);
  assert.equal(answer.text, "Done.");
  assert.notEqual(answer.streamId, reply.streamId);
  assert.ok(world.bugs.length > 0, "and it is reported");
  world.bugs.length = 0;
});

test("a mistake of ours while a session is saved is reported, breaks its answer off, and costs no other", async (t) => {
  const world = await World.begin(t, model());
  const batch = world.tables.batch.bind(world.tables);
  const mistake = new TypeError("a mistake");
  let saves = 0;
  world.tables.batch = (writes) => {
    const isSession = writes.some(({ table }) => table === "gateway_sessions");
    // The second time it waits for tools.
    if (isSession && ++saves === 2) return Promise.reject(mistake);
    return batch(writes);
  };
  const broken = await look(world, "one");
  assert.notEqual(broken.finish, "tool_calls");
  assert.ok(world.bugs.includes(mistake), "it is reported");
  world.bugs.length = 0;
  world.tables.batch = batch;
  assert.equal((await goOn(world, "two", await look(world, "two"))).text, "Done.");
});

test("E8: a principal has as many streams as it may: the session that has waited longest makes room, others' do not", async (t) => {
  const openStreamsMax = 12;
  const world = await World.begin(t, model(), { limits: { openStreamsMax } });
  const bobs = await look(world, "bob", BOB_KEY);
  const oldest = await look(world, "oldest");
  world.nowMs += 1_000;
  const names = Array.from({ length: openStreamsMax - 1 }, (_, at) => `${at}`);
  const others = await Promise.all(names.map((name) => look(world, name)));
  assert.equal(world.gateway.sessions.length, openStreamsMax + 1);
  const more = await look(world, "one more");
  assert.equal(more.finish, "tool_calls");
  await until(() => world.gateway.sessions.length === openStreamsMax + 1, "one is gone");
  const left = streamsOf(world);
  assert.ok(!left.includes(oldest.streamId), "it has made room");
  for (const { streamId } of [bobs, more, ...others]) assert.ok(left.includes(streamId));
  assert.equal(world.gateway.counters.evicted, 1);
  assert.equal((await goOn(world, "oldest", oldest)).text, "Done.");
});

test("a session whose time is over does not stand in the way of the results that another one waits for", async (t) => {
  const world = await World.begin(t, model());
  await look(world, "old");
  world.nowMs += GATEWAY_LIMITS.sessionTtlMs;
  const young = await look(world, "young");
  assert.equal((await goOn(world, "young", young)).text, "Done.");
  assert.equal(world.gateway.counters.continuedTurns, 1);
});

/** A model that says nothing until it may. */
function held(): { readonly model: PacedModel; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { model: new PacedModel(() => [() => promise, "Done."]), release: resolve };
}

const ask = (world: World, name: string, apiKey = ALICE_KEY): Exchange =>
  new Exchange(world.url, bodyOf([user(name)]), { apiKey });

test("E8: a burst of more answers than a principal may have: as many as it may, the next is 429 with a time to come back", async (t) => {
  const openStreamsMax = 100;
  const { model: slow, release } = held();
  const world = await World.begin(t, slow, { limits: { openStreamsMax } });
  const burst = Array.from({ length: openStreamsMax + 1 }, (_, at) => ask(world, `${at}`));
  await until(() => slow.calls.length === openStreamsMax, "as many as may are under way");
  const refusals = (): readonly Exchange[] => burst.filter((each) => each.hasCome("open_streams_limit"));
  await until(() => refusals().length === 1, "and one is refused");
  const response = await fetch(`${world.url}${CHAT}`, {
    method: "POST",
    headers: { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json" },
    body: bodyOf([user("one more")], { stream: false }),
  });
  assert.deepEqual([response.status, response.headers.get("retry-after")], [429, "2"]);
  const bobs = ask(world, "bob", BOB_KEY);
  await until(() => slow.calls.length === openStreamsMax + 1, "another principal has its own");
  release();
  const replies = await Promise.all([...burst, bobs].map((exchange) => exchange.reply()));
  assert.equal(replies.filter(({ text }) => text === "Done.").length, openStreamsMax + 1);
  await until(() => world.gateway.sessions.length === 0, "they are over");
  assert.equal((await ask(world, "again").reply()).text, "Done.");
});

test("E8: streams that are being opened count as well", async (t) => {
  const { model: slow, release } = held();
  const world = await World.begin(t, slow, { limits: { openStreamsMax: 2 } });
  const call = (name: string): ChatCall => ({
    principal: "alice",
    request: parseChatRequest(JSON.parse(bodyOf([user(name)])), { allowRemoteImages: false }),
    bodyHash: name,
    bodyBytes: 0,
    idempotencyKey: undefined,
    retrySign: "none",
    parkedMax: undefined,
    requestId: name,
    signal: new AbortController().signal,
  });
  const asked = ["a", "b", "c", "d"].map((name) => world.gateway.chat(call(name)));
  const answers = await Promise.allSettled(asked);
  const admitted = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  for (const answer of admitted) answer.delivered(true);
  release();
  assert.equal(admitted.length, 2);
});

test("more than a hundred answers at once behind one API key", async (t) => {
  const { model: slow, release } = held();
  const world = await World.begin(t, slow);
  const count = LIMITS.openStreamsPerPrincipalMax + 30;
  const burst = Array.from({ length: count }, (_, at) => ask(world, `${at}`));
  await until(() => slow.calls.length === count, "all are under way");
  release();
  for (const exchange of burst) assert.equal((await exchange.reply()).text, "Done.");
});

test("E8: a server elsewhere that has no room: the session that waited makes it, and without one the answer is 429, not silence", async (t) => {
  const gate = Promise.withResolvers<void>();
  const slow = new PacedModel((call) =>
    lastTold(call).startsWith("Look") ? [{ tool: "look", args: {} }] : [() => gate.promise, "Done."],
  );
  const world = await World.begin(t, slow, { isCountedByServer: true, httpLimits: { headHeldMs: 600_000 } });
  await look(world, "one");
  const most = LIMITS.openStreamsPerPrincipalMax;
  const burst = Array.from({ length: most - 1 }, (_, at) => ask(world, `${at}`));
  await until(() => slow.calls.length === most, "it is full");
  const last = ask(world, "in the place of the one that waits");
  await until(() => slow.calls.length === most + 1, "it is let in");
  assert.equal(world.gateway.counters.evicted, 1);
  for (const name of ["too much", "more than that"]) {
    const exchange = ask(world, name);
    await until(() => exchange.hasCome("open_streams_limit"), `${name} is refused`);
    assert.equal((await exchange.reply()).status, 429);
  }
  gate.resolve();
  for (const exchange of [...burst, last]) assert.equal((await exchange.reply()).text, "Done.");
  await until(() => world.gateway.sessions.length === 0, "nothing is left of those that were refused");
  assert.equal((await ask(world, "again").reply()).text, "Done.");
  assert.equal(slow.calls.length, most + 2, "the model was not asked for those that were refused");
});

test("a turn that has used its tokens ends the answer with a finish, says why, and the next message is answered", async (t) => {
  const paced = model();
  const application = createAgent({ models: modelsOf(paced), limits: { tokensMax: 17 } });
  const world = await World.begin(t, paced, { application });
  const first = await look(world, "one");
  assert.equal(first.finish, "tool_calls");
  const end = await goOn(world, "one", first);
  assert.deepEqual([end.status, end.finish, end.error, end.isWhole], [200, "length", undefined, true]);
  assert.match(end.text, /17 tokens/);
  assert.equal(paced.calls.length, 1);
  const results = first.calls.map(({ id }) => result(id, "seen"));
  const history = [user("Look one"), said(first), ...results, said(end), user("Go on")];
  const next = await new Exchange(world.url, bodyOf(history)).reply();
  assert.deepEqual([next.finish, next.text], ["stop", "Done."]);
});

test("an answer that ended at a bound is had again by its Idempotency-Key: nothing is done twice", async (t) => {
  const paced = model();
  const application = createAgent({ models: modelsOf(paced), limits: { tokensMax: 17 } });
  const world = await World.begin(t, paced, { application });
  const first = await look(world, "one");
  const results = first.calls.map(({ id }) => result(id, "seen"));
  const body = bodyOf([user("Look one"), said(first), ...results]);
  const headers = { "idempotency-key": "once" };
  const end = await new Exchange(world.url, body, { headers }).reply();
  assert.equal(end.finish, "length");
  await until(() => world.gateway.sessions.length === 0, "it is over");
  const again = await new Exchange(world.url, body, { headers }).reply();
  assert.deepEqual([again.finish, again.text, again.streamId], ["length", end.text, end.streamId]);
  assert.equal(paced.calls.length, 1);
});

test("a gateway that is closed has nothing more to do on its disk", async (t) => {
  const held = Promise.withResolvers<void>();
  t.after(() => held.resolve());
  const world = await World.begin(t, new PacedModel(() => ["Hello."]));
  let [asked, isClosed, hasBegun] = [0, false, false];
  for (const name of ["get", "list", "batch", "delete"] as const) {
    const method: (...given: never[]) => Promise<unknown> = world.tables[name].bind(world.tables);
    t.mock.method(world.tables, name, async (...given: never[]) => {
      assert.ok(!isClosed, `${name} behind the end`);
      asked++;
      hasBegun ||= world.gateway.sessions.length > 0;
      if (hasBegun && world.gateway.sessions.length === 0) await held.promise;
      return method(...given);
    });
  }
  await new Exchange(world.url, bodyOf([user("Hi")])).reply();
  await until(() => world.gateway.sessions.length === 0, "it is over");
  const closed = world.gateway.close().then(() => (isClosed = true));
  await setTimeout(20);
  assert.ok(!isClosed, "it waits for its disk");
  held.resolve();
  await closed;
  t.mock.restoreAll();
  assert.ok(asked > 0);
  assert.deepEqual(await world.rows("journal_heads"), []);
});

test("G7: a gateway that is being closed begins no turn, and its client is told to retry", async (t) => {
  const model = new PacedModel(() => ["Hello."]);
  const world = await World.begin(t, model);
  const closed = world.gateway.close();
  const { status, error } = await new Exchange(world.url, bodyOf([user("Hi")])).reply();
  assert.deepEqual([status, error], [503, "server_error unavailable"]);
  await closed;
  assert.equal(model.calls.length, 0);
  assert.deepEqual(await world.rows("gateway_sessions"), [], "no stream was opened for it");
});
