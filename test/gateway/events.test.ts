/**
 * `GET /v1/streams/{id}/events` goes on from any frame, while the answer comes and when it is over; `DELETE` stops it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../e2e/rig.ts";
import { BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, Exchange, readReply, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

function eventsOf(world: World, streamId: string, lastEventId?: string, apiKey?: string): Exchange {
  const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const path = `/v1/streams/${streamId}/events`;
  return new Exchange(world.url, undefined, {
    method: "GET",
    path,
    headers,
    ...(apiKey === undefined ? {} : { apiKey }),
  });
}

/** Pieces that come while the disk is busy are told together: these have a good chance to be apart. */
const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

function model(gate: Promise<void>): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? [
          "Let me ",
          () => gate,
          aMoment,
          "see it. ",
          { tool: "look", args: { at: "a" } },
          { tool: "look", args: { at: "b" } },
        ]
      : ["There is a house ", aMoment, "and a tree ", aMoment, "behind it."],
  );
}

/** From every frame of the response: what came before it and what comes then are the whole. */
async function resumesEverywhere(world: World, whole: Reply): Promise<void> {
  const frames = whole.body.split(/(?<=\n\n)/);
  const placed = frames.flatMap((frame, at) => {
    const id = /^id: (.*)$/m.exec(frame)?.[1];
    return id === undefined ? [] : [{ id, before: frames.slice(0, at + 1).join("") }];
  });
  assert.ok(placed.length >= 2);
  for (const { id, before } of placed) {
    const rest = await eventsOf(world, whole.streamId, id).reply();
    assert.equal(rest.status, 200, rest.body);
    const joined = readReply(before + rest.body, { status: 200, streamId: whole.streamId, isEnded: true });
    const { text, calls, finish, isWhole } = joined;
    assert.deepEqual(
      [text, calls, finish, isWhole],
      [whole.text, whole.calls, whole.finish, true],
      `after ${id}`,
    );
    assert.equal(
      rest.responseId === "" || rest.responseId === whole.responseId,
      true,
      "the answer keeps its id",
    );
  }
}

test("resumed from any frame: of a parked answer, of one that is over, and after a restart", async (t) => {
  const world = await World.begin(t, model(Promise.resolve()));
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  await resumesEverywhere(world, looked);
  const results = looked.calls.map(({ id }) => result(id, "a house"));
  const seen = await new Exchange(world.url, bodyOf([user("Look"), said(looked), ...results])).reply();
  assert.equal(seen.streamId, looked.streamId);
  await resumesEverywhere(world, seen);
  await world.restart();
  await resumesEverywhere(world, seen);
  assert.equal(world.model.calls.length, 2);
});

test("B5: an id that was never sent is refused, of an answer under way and of one that is over", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, model(gate.promise));
  const exchange = new Exchange(world.url, bodyOf([user("Look")]));
  await exchange.until("me ");
  const streamId = await exchange.streamId();
  const ahead = eventsOf(world, streamId, "0:1000");
  await until(() => ahead.hasCome("event_ahead"), "it is refused");
  gate.resolve();
  await exchange.reply();
  await new Exchange(world.url, undefined, { method: "DELETE", path: `/v1/streams/${streamId}` }).reply();
  await until(() => world.gateway.sessions.length === 0, "it is over");
  for (const refused of [await ahead.reply(), await eventsOf(world, streamId, "0:1000").reply()])
    assert.deepEqual([refused.status, refused.error], [410, "invalid_request_error event_ahead"]);
});

test("resumed while the answer comes", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, model(gate.promise));
  const cut = new Exchange(world.url, bodyOf([user("Look")]));
  await cut.until("me ");
  cut.hangUp();
  const before = await cut.reply();
  const rest = eventsOf(world, before.streamId, before.ids.at(-1));
  await until(() => world.gateway.readers === 1, "somebody reads again");
  gate.resolve();
  const { text, finish } = await rest.reply();
  assert.equal(before.text + text, "Let me see it. ");
  assert.equal(finish, "tool_calls");
  assert.equal(world.model.calls.length, 1);
});

/** Looks, and goes on with what it sees: the second answer of the same stream waits at `gate` before its first word. */
function looking(gate: Promise<void>): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? ["Let me see it. ", { tool: "look", args: { at: "a" } }]
      : [() => gate, "There is a house."],
  );
}

test("a tool loop's second answer is what is told of a stream, also before its first word; the first one's ids are refused", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, looking(gate.promise));
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const results = looked.calls.map(({ id }) => result(id, "a house"));
  const second = new Exchange(world.url, bodyOf([user("Look"), said(looked), ...results]));
  await until(() => world.model.calls.length === 2, "the second answer is under way");
  const { streamId } = looked;
  const latest = eventsOf(world, streamId);
  await until(() => world.gateway.readers === 2, "it is read");
  const refusals = [...new Set(looked.ids)].map((id) => eventsOf(world, streamId, id));
  const isTold = (exchange: Exchange): boolean => exchange.hasCome('"code":"other_answer"');
  await until(() => refusals.every(isTold), "they are refused at once");
  gate.resolve();
  for (const exchange of refusals) assert.equal((await exchange.reply()).status, 409);
  const whole = await second.reply();
  const [role] = whole.ids;
  assert.ok(role !== undefined);
  const fromRole = await eventsOf(world, streamId, role).reply();
  for (const reply of [await latest.reply(), whole, fromRole]) {
    assert.deepEqual([reply.text, reply.calls, reply.finish], ["There is a house.", [], "stop"]);
    assert.equal(reply.responseId, whole.responseId);
  }
  assert.notEqual(whole.responseId, looked.responseId);
  for (const id of new Set(looked.ids)) {
    assert.equal((await eventsOf(world, streamId, id).reply()).status, 409, `${id}, when it is over`);
  }
});

test("results that died with their process are not waited for: /events tells what the log has, and the retry that says them again goes on", async (t) => {
  const world = await World.begin(t, looking(Promise.resolve()));
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const results = looked.calls.map(({ id }) => result(id, "a house"));
  const body = bodyOf([user("Look"), said(looked), ...results]);
  // The session's record says by then that it has them.
  world.life.loseAppend = world.life.appends + 1;
  const lost = new Exchange(world.url, body);
  await world.life.died.promise;
  await world.restart();
  lost.hangUp();
  const latest = eventsOf(world, looked.streamId);
  await until(() => latest.hasCome('"finish_reason":"tool_calls"'), "it is told what there is");
  assert.deepEqual((await latest.reply()).calls, looked.calls);
  const whole = await new Exchange(world.url, body).reply();
  assert.deepEqual([whole.text, whole.streamId], ["There is a house.", looked.streamId]);
});

test("the latest answer is told when its session is forgotten, with its model; one that was ended while it waited is the one that waited", async (t) => {
  const world = await World.begin(t, looking(Promise.resolve()));
  const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const results = looked.calls.map(({ id }) => result(id, "a house"));
  const seen = await new Exchange(world.url, bodyOf([user("Look"), said(looked), ...results])).reply();
  const waiting = await new Exchange(world.url, bodyOf([user("Look elsewhere")])).reply();
  const path = `/v1/streams/${waiting.streamId}`;
  await new Exchange(world.url, undefined, { method: "DELETE", path }).reply();
  world.nowMs += 24 * 60 * 60_000;
  await world.tables.sweep(10_000);
  for (const whole of [seen, waiting]) {
    const again = await eventsOf(world, whole.streamId).reply();
    assert.deepEqual([again.text, again.calls, again.finish], [whole.text, whole.calls, whole.finish]);
    assert.equal(again.responseId, whole.responseId);
    assert.deepEqual(modelsIn(again), ["paced/model"]);
    await resumesEverywhere(world, whole);
  }
  for (const id of new Set(looked.ids)) {
    assert.equal((await eventsOf(world, looked.streamId, id).reply()).status, 409, id);
  }
});

function modelsIn({ body }: Reply): readonly string[] {
  return [...new Set([...body.matchAll(/"model":"([^"]*)"/g)].map(([, name = ""]) => name))];
}

test("a resumed answer has the usage when it was asked for, and only then; it always has the model", async (t) => {
  const world = await World.begin(t, looking(Promise.resolve()));
  for (const include_usage of [false, true]) {
    const body = bodyOf([user(`Hello ${include_usage}`)], { stream_options: { include_usage } });
    const whole = await new Exchange(world.url, body).reply();
    assert.equal(whole.body.includes('"usage":'), include_usage);
    const again = await eventsOf(world, whole.streamId).reply();
    assert.equal(again.body, whole.body);
    assert.deepEqual(modelsIn(again), ["paced/model"]);
  }
});

test("resumed after a kill, by who saw some of the attempt that died: the words come while the model speaks", async (t) => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const model = new PacedModel((_, count) => [
    "One ",
    aMoment,
    "two ",
    ...(count === 1 ? [() => gates[0].promise] : [aMoment, "three ", () => gates[1].promise]),
    "four.",
  ]);
  const world = await World.begin(t, model);
  const cut = new Exchange(world.url, bodyOf([user("Count")]));
  await cut.until("two ");
  await world.restart();
  const before = await cut.reply();
  const rest = eventsOf(world, before.streamId, before.ids.at(-1));
  await until(() => rest.hasCome("three "), "the words come");
  assert.equal(world.gateway.readers, 1);
  gates[1].resolve();
  const { text, finish } = await rest.reply();
  assert.deepEqual([before.text + text, finish], ["One two three four.", "stop"]);
});

test("E2: another principal's stream is not found, and cannot be stopped", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, model(gate.promise));
  const own = new Exchange(world.url, bodyOf([user("Look")]));
  await own.until("me ");
  const [session] = world.gateway.sessions;
  assert.ok(session !== undefined);
  const { streamId } = session.answer;
  const foreign = await eventsOf(world, streamId, undefined, BOB_KEY).reply();
  const unknown = await eventsOf(world, "no-such-stream", undefined, BOB_KEY).reply();
  assert.equal(foreign.status, 404);
  assert.deepEqual([foreign.status, foreign.error], [unknown.status, unknown.error]);
  const stop = (id: string): Promise<Reply> => {
    const asking = { method: "DELETE", path: `/v1/streams/${id}`, apiKey: BOB_KEY };
    return new Exchange(world.url, undefined, asking).reply();
  };
  const [notHis, nobodys] = [await stop(streamId), await stop("no-such-stream")];
  assert.equal(notHis.status, 404);
  assert.deepEqual([notHis.status, notHis.error], [nobodys.status, nobodys.error]);
  gate.resolve();
  assert.equal((await own.reply()).finish, "tool_calls");
});

test("D3: DELETE stops the model, ends the response with an error, and leaves nothing to continue", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, model(gate.promise));
  const exchange = new Exchange(world.url, bodyOf([user("Look")]));
  await exchange.until("me ");
  const streamId = world.gateway.sessions[0]?.answer.streamId ?? "";
  const asking = { method: "DELETE", path: `/v1/streams/${streamId}` };
  assert.equal((await new Exchange(world.url, undefined, asking).reply()).status, 200);
  const reply = await exchange.reply();
  assert.equal(reply.finish, undefined);
  assert.equal(reply.error, "aborted_error stopped");
  await until(() => world.model.calls[0]?.signal.aborted === true, "the model is stopped");
  await until(() => world.gateway.sessions.length === 0, "nothing is left");
  assert.equal((await new Exchange(world.url, undefined, asking).reply()).status, 200, "twice is no harm");
  assert.deepEqual(await world.rows("gateway_sessions"), []);
});
