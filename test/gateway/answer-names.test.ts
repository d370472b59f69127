/**
 * The name of an answer (`x-holdfast-resume`): its `GET` continues exactly that answer, for as long as its stream is kept, and its `DELETE` stops no other.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../e2e/rig.ts";
import { BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, Exchange, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

interface Asked {
  readonly path: string;
  readonly reply: Reply;
}

async function ask(world: World, body: string): Promise<Asked> {
  const exchange = new Exchange(world.url, body);
  return { path: await exchange.resumePath(), reply: await exchange.reply() };
}

function get(world: World, path: string, lastEventId?: string, apiKey?: string): Exchange {
  const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  return new Exchange(world.url, undefined, {
    method: "GET",
    path,
    headers,
    ...(apiKey === undefined ? {} : { apiKey }),
  });
}

const drop = (world: World, path: string): Promise<Reply> =>
  new Exchange(world.url, undefined, { method: "DELETE", path }).reply();

const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

/** Two answers in one stream. */
function looking(gate: Promise<void>): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? ["Let me ", aMoment, "see – ja, größer. ", { tool: "look", args: { at: "a" } }]
      : ["There is ", aMoment, () => gate, "a house."],
  );
}

/** Behind every frame, and without an id: what came before and what comes then are the whole response, byte for byte. */
async function continuesEverywhere(world: World, { path, reply: { body } }: Asked): Promise<void> {
  assert.equal((await get(world, path).reply()).body, body);
  const frames = body.split(/(?<=\n\n)/);
  let before = "";
  for (const frame of frames) {
    before += frame;
    const id = /^id: (.*)$/m.exec(frame)?.[1];
    const rest = await get(world, path, id).reply();
    // Behind its end an answer is asked for by mistake, and its last word is said again.
    const whole = frame.includes("[DONE]") ? before.slice(0, -frame.length) : before;
    assert.equal(whole + rest.body, body, `behind ${frame}`);
  }
}

test("each answer of a tool loop is continued by its own name, byte for byte: at once, after a kill, and when its session is forgotten", async (t) => {
  const world = await World.begin(t, looking(Promise.resolve()));
  const asked = { stream_options: { include_usage: true } };
  const first = await ask(world, bodyOf([user("Look")], asked));
  world.nowMs += 5_000;
  const results = first.reply.calls.map(({ id }) => result(id, "a house"));
  const second = await ask(world, bodyOf([user("Look"), said(first.reply), ...results]));
  assert.equal(second.reply.streamId, first.reply.streamId);
  assert.deepEqual(
    [first, second].map(({ reply }) => reply.body.includes('"usage":')),
    [true, false],
  );
  const both = [first, second];
  for (const one of both) await continuesEverywhere(world, one);
  await world.restart();
  for (const one of both) await continuesEverywhere(world, one);
  world.nowMs += 24 * 60 * 60_000;
  await world.tables.sweep(10_000);
  for (const one of both) await continuesEverywhere(world, one);
  for (const id of first.reply.ids)
    assert.equal((await get(world, second.path, id).reply()).error, "invalid_request_error other_answer");
  assert.equal(world.model.calls.length, 2);
});

test("an earlier answer is continued, and stopping it stops nothing, while the next one is under way", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, looking(gate.promise));
  const first = await ask(world, bodyOf([user("Look")]));
  const results = first.reply.calls.map(({ id }) => result(id, "a house"));
  const second = new Exchange(world.url, bodyOf([user("Look"), said(first.reply), ...results]));
  await second.until("There ");
  await continuesEverywhere(world, first);
  assert.equal((await drop(world, first.path)).status, 200);
  gate.resolve();
  assert.deepEqual(
    [(await second.reply()).text, (await second.reply()).isWhole],
    ["There is a house.", true],
  );
});

test("E2: a name of another principal's answer is not found, and stops nothing; what is no name neither", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, looking(gate.promise));
  const own = new Exchange(world.url, bodyOf([user("Say")]));
  await own.until("There ");
  const path = await own.resumePath();
  const foreign = await get(world, path, undefined, BOB_KEY).reply();
  const stop = { method: "DELETE", path, apiKey: BOB_KEY };
  const stopped = await new Exchange(world.url, undefined, stop).reply();
  const word = Buffer.from('["x","y"]').toString("base64url");
  const nonsense = await get(world, `/v1/answers/${word}`).reply();
  for (const { status, error } of [foreign, stopped, nonsense])
    assert.deepEqual([status, error], [404, "invalid_request_error not_found"]);
  gate.resolve();
  assert.equal((await own.reply()).isWhole, true);
});

test("an answer is stopped by its name", async (t) => {
  const world = await World.begin(t, looking(new Promise(() => undefined)));
  const own = new Exchange(world.url, bodyOf([user("Say")]));
  await own.until("There ");
  assert.equal((await drop(world, await own.resumePath())).status, 200);
  assert.equal((await own.reply()).error, "aborted_error stopped");
  await until(() => world.gateway.sessions.length === 0, "nothing is left of it");
});
