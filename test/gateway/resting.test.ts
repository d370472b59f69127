/**
 * Sessions that have waited for tool results for a while rest: nothing of their streams is in memory, and what a request finds is what it would have found before.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { ServerFrame } from "../../src/protocol/frames.ts";
import type { Accept } from "../../src/transport/index.ts";
import { parseChatRequest } from "../../src/gateway/openai/index.ts";
import { loggedEvents } from "../../src/gateway/stream-events.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World, type WorldOptions } from "./world.ts";

const LATE_MS = 50;

type Begin = (limits?: WorldOptions["limits"]) => Promise<World>;

/** On tables of one node, and on tables that other nodes could share. */
function restTest(name: string, run: (begin: Begin) => Promise<void>): void {
  test(name, (t) => run((limits) => begin(t, false, limits)));
  test(`${name}, on tables that nodes share`, (t) => run((limits) => begin(t, true, limits)));
}

function begin(
  t: TestContext,
  isShared: boolean,
  limits: WorldOptions["limits"] = {},
  more: Pick<WorldOptions, "through"> = {},
): Promise<World> {
  const model = new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? ["I look. ", { tool: "look", args: {} }]
      : [`Done: ${lastTold(call)}.`],
  );
  return World.begin(t, model, { limits: { restMs: 5, ...limits }, turnsRestMs: 5, isShared, ...more });
}

const look = (world: World): Promise<Reply> => new Exchange(world.url, bodyOf([user("Look")])).reply();

function goOn(world: World, reply: Reply, seen = "seen"): Promise<Reply> {
  const results = reply.calls.map(({ id }) => result(id, seen));
  return new Exchange(world.url, bodyOf([user("Look"), said(reply), ...results])).reply();
}

async function rested(world: World): Promise<Reply> {
  const reply = await look(world);
  assert.equal(reply.finish, "tool_calls");
  await until(() => world.hosted === 0, "the server has no stream in hand");
  assert.equal(world.gateway.sessions.length, 1, "the session is there");
  return reply;
}

restTest(
  "a result wakes its session: the turn goes on with one call of the model, again and again",
  async (begin) => {
    const world = await begin();
    const reply = await rested(world);
    const more = await goOn(world, reply, "Look again");
    assert.deepEqual(
      [more.streamId, more.finish, world.model.calls.length],
      [reply.streamId, "tool_calls", 2],
    );
    await until(() => world.hosted === 0, "it rests again");
    const results = more.calls.map(({ id }) => result(id, "seen"));
    const first = reply.calls.map(({ id }) => result(id, "Look again"));
    const body = bodyOf([user("Look"), said(reply), ...first, said(more), ...results]);
    const done = await new Exchange(world.url, body).reply();
    assert.deepEqual(
      [done.streamId, done.text, world.model.calls.length],
      [reply.streamId, "Done: seen.", 3],
    );
    assert.equal(world.gateway.counters.continuedTurns, 2);
  },
);

restTest("two requests at once wake one turn, and the other one gets a stream of its own", async (begin) => {
  const world = await begin();
  const reply = await rested(world);
  const both = await Promise.all([goOn(world, reply, "one"), goOn(world, reply, "two")]);
  assert.deepEqual(both.map(({ text }) => text).toSorted(), ["Done: one.", "Done: two."]);
  assert.equal(both.filter(({ streamId }) => streamId === reply.streamId).length, 1);
  assert.equal(world.model.calls.length, 3);
});

restTest(
  "the answer of a session that rests is read from its log, and nothing is generated for that",
  async (begin) => {
    const world = await begin();
    const reply = await rested(world);
    const again = new Exchange(world.url, undefined, {
      method: "GET",
      path: `/v1/streams/${reply.streamId}/events`,
    });
    const read = await again.reply();
    assert.deepEqual([read.text, read.finish, world.model.calls.length], ["I look. ", "tool_calls", 1]);
    assert.equal((await goOn(world, reply)).streamId, reply.streamId);
  },
);

restTest("killed while it rests, it goes on behind the next start", async (begin) => {
  const world = await begin();
  const reply = await rested(world);
  await world.restart();
  assert.equal((await goOn(world, reply)).streamId, reply.streamId);
  assert.equal(world.model.calls.length, 2);
});

restTest("F1: one that rests ends by its time: no row and no open stream is left of it", async (begin) => {
  const world = await begin({ sessionTtlMs: 300 });
  const reply = await look(world);
  assert.equal(reply.finish, "tool_calls");
  await until(() => world.gateway.counters.expired === 1, "it expires");
  await until(() => world.gateway.sessions.length === 0 && world.hosted === 0, "it is gone");
  await until(async () => (await world.rows("gateway_sessions")).length === 0, "its row is gone");
  const late = await goOn(world, reply);
  assert.notEqual(late.streamId, reply.streamId);
});

restTest("D3: one that rests can be stopped", async (begin) => {
  const world = await begin();
  const reply = await rested(world);
  const stop = new Exchange(world.url, undefined, {
    path: `/v1/streams/${reply.streamId}`,
    method: "DELETE",
  });
  assert.equal((await stop.reply()).status, 200);
  await until(() => world.gateway.sessions.length === 0, "it is gone");
  assert.notEqual((await goOn(world, reply)).streamId, reply.streamId);
});

test("D1: a session that another node has taken while it rested is not ended here when it is to make room", async (t) => {
  const world = await begin(t, true, { openStreamsMax: 1 });
  const { streamId } = await rested(world);
  const [row] = await world.rows("gateway_sessions");
  assert.ok(row !== undefined);
  await world.tables.put({ table: "gateway_sessions", key: row.key }, row.value);
  const other = await new Exchange(world.url, bodyOf([user("Look again")])).reply();
  assert.notEqual(other.streamId, streamId);
  await until(() => world.gateway.sessions.every(({ answer }) => answer.streamId !== streamId), "it is gone");
  const keys = (await world.rows("gateway_sessions")).map(({ key }) => key);
  assert.ok(keys.includes(row.key), "its row is the other node's");
  const { signal } = new AbortController();
  const [client, asked] = [world.clientOf("alice"), { streamId, isPast: true, signal }];
  const said = await Array.fromAsync(loggedEvents({ client, ...asked }, 0), ({ isPause }) => isPause);
  assert.equal(said.filter((isPause) => isPause).length, 1, "its turn waits");
});

test("F1: results for a session that rested here and has ended at another node get an answer all the same", async (t) => {
  const world = await begin(t, true);
  const reply = await rested(world);
  for (const { key } of await world.rows("gateway_sessions"))
    await world.tables.delete({ table: "gateway_sessions", key });
  const { streamId, text } = await goOn(world, reply);
  assert.deepEqual([streamId === reply.streamId, text], [false, "Done: seen."]);
});

for (const sign of ["x-stainless-retry-count", "idempotency-key"])
  restTest(
    `D3: a retry by ${sign} gets the answer of a session that rests, unless another client of the server has stopped its turn meanwhile`,
    async (begin) => {
      const world = await begin();
      for (const isStopped of [false, true]) {
        const body = bodyOf([user(`Look. Stopped: ${isStopped}`)]);
        const headers = { [sign]: isStopped ? "2" : "1" };
        const first = new Exchange(world.url, body, sign === "idempotency-key" ? { headers } : {});
        const { streamId } = await first.reply();
        await until(() => world.hosted === 0, "it rests");
        if (isStopped) await (await world.clientOf("alice").abort(streamId)).ended;
        const retried = await new Exchange(world.url, body, { headers }).reply();
        assert.equal(retried.streamId === streamId, !isStopped);
      }
      assert.equal(world.model.calls.length, 3);
    },
  );

test("D3: a retry that wakes a session is not answered before its log is read to the end: behind the pause the turn may have been stopped", async (t) => {
  let pausedAt = 0;
  // A slow connection: what the log has behind the pause comes a moment later.
  const through =
    (accept: Accept): Accept =>
    (meta, wire) => {
      let isLate = false;
      const write = (frames: readonly ServerFrame[]): number => {
        const isBehind = (frame: ServerFrame): boolean => frame.kind === "event" && frame.eventId > pausedAt;
        const at = isLate ? 0 : pausedAt > 0 ? frames.findIndex(isBehind) : -1;
        if (at < 0) return wire.write(frames);
        isLate = true;
        setTimeout(() => wire.write(frames.slice(at)), LATE_MS);
        return wire.write(frames.slice(0, at));
      };
      return accept(meta, { write, end: () => void setTimeout(() => wire.end(), LATE_MS) });
    };
  const world = await begin(t, false, {}, { through });
  const headers = { "idempotency-key": "1" };
  const first = await new Exchange(world.url, bodyOf([user("Look")]), { headers }).reply();
  await until(() => world.hosted === 0, "it rests");
  const [client, asked] = [world.clientOf("alice"), { streamId: first.streamId, isPast: true }];
  const { signal } = new AbortController();
  const said = await Array.fromAsync(loggedEvents({ client, ...asked, signal }, 0));
  await (
    await client.abort(first.streamId)
  ).ended;
  pausedAt = said.findLast(({ isPause }) => isPause)?.eventId ?? assert.fail("its answer is complete");
  const retried = await new Exchange(world.url, bodyOf([user("Look")]), { headers }).reply();
  assert.notEqual(retried.streamId, first.streamId);
});

restTest(
  "D3: right behind a stop an Idempotency-Key is for another answer, also while the rows of a session that rested go",
  async (begin) => {
    const world = await begin();
    const call = {
      principal: "alice",
      request: parseChatRequest(JSON.parse(bodyOf([user("Look")]))),
      bodyHash: "of the body",
      idempotencyKey: "one",
      bodyBytes: 0,
      retrySign: "none" as const,
      parkedMax: undefined,
      requestId: "r",
      signal: new AbortController().signal,
    };
    const first = await world.gateway.chat(call);
    for await (const delta of first.deltas) if (delta.kind === "calls") break;
    first.delivered(true);
    await until(() => world.hosted === 0, "it rests");
    await world.gateway.stop({ principal: "alice", streamId: first.streamId });
    const second = await world.gateway.chat(call);
    assert.notEqual(second.streamId, first.streamId);
    second.delivered(false);
  },
);
