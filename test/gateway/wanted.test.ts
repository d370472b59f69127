/**
 * G7: nothing is paid twice for nobody. After a restart an answer that was cut off is generated again when a client asks for it, and only then.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerLog } from "../../src/gateway/answer-log.ts";
import { Names } from "../../src/gateway/names.ts";
import { systemEnvironment } from "../../src/transport/environment.ts";
import { until } from "../e2e/rig.ts";
import { BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, Exchange, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { ALONE, World, type WorldOptions } from "./world.ts";

const TELL = bodyOf([user("Tell me")]);

/** Its first answer stops in the middle, and its tools are called at once. */
function interruptedModel(): PacedModel {
  return new PacedModel((call, count) => {
    if (lastTold(call).startsWith("Look")) return [{ tool: "look", args: {} }];
    if (lastTold(call) !== "Tell me") return ["Something else."];
    return count === 1 ? ["Half of it ", () => new Promise(() => undefined)] : ["All of it."];
  });
}

/** How often the model was asked for the answer that is cut off. */
const paid = ({ model }: World): number => model.calls.filter((call) => lastTold(call) === "Tell me").length;

/** Asked once, and cut off by a first kill. */
async function cutOff(world: World): Promise<{ readonly streamId: string; readonly lastId: string }> {
  const cut = new Exchange(world.url, TELL);
  await cut.until("Half");
  await world.restart();
  const { streamId, ids } = await cut.reply();
  return { streamId, lastId: ids.at(-1) ?? "" };
}

/** Long enough for a stream that was resumed to ask its model: a whole turn of another conversation. */
async function goOn(world: World, times = 5): Promise<void> {
  for (let at = 0; at < times; at++) await new Exchange(world.url, bodyOf([user(`Else ${at}`)])).reply();
}

async function begin(t: Parameters<typeof World.begin>[0], options: WorldOptions = {}): Promise<World> {
  return World.begin(t, interruptedModel(), options);
}

test("G7: asked once, killed twice, and no client: one call in all; a retry is served for exactly one more", async (t) => {
  const world = await begin(t);
  const { streamId } = await cutOff(world);
  await goOn(world);
  await world.restart();
  await goOn(world);
  assert.equal(paid(world), 1);
  const retried = await new Exchange(world.url, TELL).reply();
  assert.equal(retried.streamId, streamId);
  assert.match(retried.text, /^All of it/);
  assert.ok(retried.isWhole);
  assert.equal(paid(world), 2);
});

test("G7: after a restart /events takes up an answer that was cut off, for one call", async (t) => {
  const world = await begin(t, ALONE);
  const { streamId } = await cutOff(world);
  await goOn(world);
  assert.equal(paid(world), 1);
  const asleep = world.gateway.sessions.filter(({ state }) => state === "sleeping");
  assert.deepEqual(
    asleep.map(({ answer }) => answer.streamId),
    [streamId],
    "it is listed as what it is",
  );
  const path = `/v1/streams/${streamId}/events`;
  const told = await new Exchange(world.url, undefined, { path, method: "GET" }).reply();
  assert.match(told.text, /^All of it/);
  assert.equal(paid(world), 2);
  const next = [user("Tell me"), said(told), user("Else")];
  await new Exchange(world.url, bodyOf(next)).reply();
  assert.equal(world.gateway.counters.continuedConversations, 1, "and its conversation goes on");
});

test("G7: a stream that sleeps is nobody else's: another principal's wish for it changes nothing", async (t) => {
  const world = await begin(t);
  const { streamId } = await cutOff(world);
  const path = `/v1/streams/${streamId}/events`;
  const foreign = await new Exchange(world.url, undefined, { path, method: "GET", apiKey: BOB_KEY }).reply();
  assert.equal(foreign.status, 404);
  await goOn(world);
  assert.equal(paid(world), 1);
});

for (const how of ["its grace period is over", "its user stops it"]) {
  test(`G7: an answer that was cut off ends without a call when ${how}, and leaves no row`, async (t) => {
    const isStopped = how === "its user stops it";
    const world = await begin(t, { ...ALONE, limits: isStopped ? {} : { graceMs: 200 } });
    const { streamId } = await cutOff(world);
    const path = `/v1/streams/${streamId}`;
    if (isStopped) {
      const stopped = await new Exchange(world.url, undefined, { path, method: "DELETE" }).reply();
      assert.equal(stopped.status, 200);
    }
    const left = async (): Promise<number> => {
      const tables = [
        "gateway_sessions",
        "gateway_index",
        "gateway_responses",
        "journal_heads",
        "journal_records",
      ];
      const counts = await Promise.all(tables.map(async (table) => (await world.rows(table)).length));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    await until(async () => (await left()) === 0, "nothing is left");
    assert.equal(paid(world), 1);
    assert.equal(world.gateway.counters.abandoned, isStopped ? 0 : 1);
    assert.deepEqual(world.gateway.sessions, []);
    const again = await new Exchange(world.url, TELL).reply();
    assert.notEqual(again.streamId, streamId);
  });
}

test("an answer whose end outlived its process, and its rows as well, is generated anew for the retry", async (t) => {
  const world = await begin(t, ALONE);
  const { streamId } = await cutOff(world);
  const { gateway, life } = world;
  life.onWrite = (name, given) => {
    // The stop is durable, and what would remove the rows is never done.
    if (name === "batch" && JSON.stringify(given).includes("gateway_sessions")) life.die();
  };
  const stopped = Promise.allSettled([gateway.stop({ principal: "alice", streamId })]);
  await life.died.promise;
  await world.restart();
  assert.deepEqual(
    world.gateway.sessions.map(({ state }) => state),
    ["sleeping"],
  );
  const retried = await new Exchange(world.url, TELL).reply();
  assert.notEqual(retried.streamId, streamId);
  assert.equal(retried.text, "All of it.");
  assert.equal(paid(world), 2);
  await stopped;
});

test("D3: of an answer that was stopped a log gives a retry nothing, whatever the tables still say of it", async (t) => {
  const world = await begin(t);
  const whole = async (streamId: string): Promise<boolean> => {
    const log = new AnswerLog({
      clientOf: (principal) => world.clientOf(principal),
      names: new Names(new Uint8Array(32)),
      environment: systemEnvironment(),
    });
    const { signal } = new AbortController();
    return (
      (await log.whole({ principal: "alice", answer: { streamId, fromEvent: 0 }, signal })) !== undefined
    );
  };
  const stopped = new Exchange(world.url, TELL);
  await stopped.until("Half");
  await world.gateway.stop({ principal: "alice", streamId: await stopped.streamId() });
  const { streamId } = await new Exchange(world.url, bodyOf([user("Else")])).reply();
  assert.deepEqual([await whole(await stopped.streamId()), await whole(streamId)], [false, true]);
});

test("G7: a session that waits for tool results is taken up at once, and its turn goes on", async (t) => {
  const world = await begin(t, ALONE);
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  await world.restart();
  assert.deepEqual(
    world.gateway.sessions.map(({ state }) => state),
    ["parked"],
  );
  const [call] = looked.calls;
  assert.ok(call !== undefined);
  const next = await new Exchange(
    world.url,
    bodyOf([user("Look"), said(looked), result(call.id, "seen")]),
  ).reply();
  assert.equal(next.streamId, looked.streamId);
});

test("a session that waits for tool results has only what is left of its time after a restart", async (t) => {
  const sessionTtlMs = 600_000;
  const world = await begin(t, { ...ALONE, limits: { sessionTtlMs } });
  await new Exchange(world.url, bodyOf([user("Look")])).reply();
  world.nowMs += sessionTtlMs - 50;
  await world.restart();
  await until(() => world.gateway.sessions.length === 0, "it has expired");
  assert.equal(world.gateway.counters.expired, 1);
});

test("E8: answers that sleep after a restart count as open streams, and the oldest of them makes room first", async (t) => {
  const openStreamsMax = 3;
  const model = new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? [{ tool: "look", args: {} }]
      : ["Half of it ", () => new Promise(() => undefined)],
  );
  const world = await World.begin(t, model, { ...ALONE, limits: { openStreamsMax } });
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const asleep: string[] = [];
  for (const name of ["older", "younger"]) {
    world.nowMs += 1_000;
    const cut = new Exchange(world.url, bodyOf([user(name)]));
    await cut.until("Half");
    asleep.push(await cut.streamId());
  }
  await world.restart();
  const [older = "", younger = ""] = asleep;
  const open = (): readonly string[] => world.gateway.sessions.map(({ answer }) => answer.streamId);
  assert.deepEqual(open().toSorted(), [looked.streamId, older, younger].toSorted());
  const next = new Exchange(world.url, bodyOf([user("next")]));
  await next.until("Half");
  await until(() => open().length === openStreamsMax, "one has made room");
  assert.deepEqual(open().toSorted(), [looked.streamId, younger, await next.streamId()].toSorted());
  assert.equal(world.gateway.counters.evicted, 1);
  const second = new Exchange(world.url, bodyOf([user("second")]));
  await second.until("Half");
  await until(() => !open().includes(younger), "the other sleeper has made room");
  assert.ok(open().includes(looked.streamId), "the session that waits for tools was spared");
  assert.equal(world.model.calls.length, 5, "no model was called to end what slept");
});

for (const wish of ["its end", "its events"]) {
  test(`a gateway that closes while a client asks for ${wish} asks the disk nothing more behind that`, async (t) => {
    const world = await begin(t);
    const { streamId } = await cutOff(world);
    const { gateway, life } = world;
    const { signal } = new AbortController();
    const call = { principal: "alice", streamId, after: undefined, signal };
    // A close that does not wait for them is over before they are.
    life.readMs = 20;
    const asked = wish === "its end" ? gateway.stop(call) : gateway.events(call);
    const settled = Promise.allSettled([asked]);
    await gateway.close();
    const late: unknown[] = [];
    const notice = (_: string, given: readonly unknown[]): void => {
      if (/gateway_|journal_/.test(JSON.stringify(given))) late.push(given);
    };
    [life.onWrite, life.onRead] = [notice, notice];
    await settled;
    // Long enough for whatever would be written too late.
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual([gateway.sessions, late], [[], []]);
  });
}

test("B5: stopped while /events wakes it, an answer does not say of a place that it was never sent", async (t) => {
  const world = await begin(t);
  const { streamId, lastId } = await cutOff(world);
  const path = `/v1/streams/${streamId}`;
  const headers = { "last-event-id": lastId };
  const events = new Exchange(world.url, undefined, { path: `${path}/events`, method: "GET", headers });
  const stop = new Exchange(world.url, undefined, { path, method: "DELETE" });
  const [told] = await Promise.all([events.reply(), stop.reply()]);
  assert.ok(!told.body.includes("event_ahead"), told.body);
});
