/**
 * A stop by the Idempotency-Key of a request: before it comes, before it is answered, of an answer in one piece, and across a kill.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../e2e/rig.ts";
import { BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, CHAT, Exchange, type Reply, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { ALONE, World } from "./world.ts";

const keyed = (key: string) => ({ headers: { "idempotency-key": key } });

function ask(world: World, key: string, more: object = {}): Exchange {
  return new Exchange(world.url, bodyOf([user("Say")], more), keyed(key));
}

function stop(world: World, key: string, apiKey?: string): Promise<Reply> {
  const asking = { method: "DELETE", path: CHAT, ...keyed(key), ...(apiKey === undefined ? {} : { apiKey }) };
  return new Exchange(world.url, undefined, asking).reply();
}

/** Says a word, if `isSpeaking`, and waits for ever. */
function endless({ isSpeaking }: { readonly isSpeaking: boolean }): PacedModel {
  const silence = (): Promise<void> => new Promise(() => undefined);
  return new PacedModel(() => (isSpeaking ? ["One ", silence, "two."] : [silence, "two."]));
}

const STOPPED = "aborted_error answer_stopped";

for (const [what, more] of [
  ["streamed, before its first word", {}],
  ["in one piece", { stream: false }],
] as const) {
  test(`D3: an answer ${what} is stopped by its key, and its retry generates nothing`, async (t) => {
    const world = await World.begin(t, endless({ isSpeaking: false }));
    const asked = ask(world, "k", more);
    await until(() => world.model.calls.length === 1, "the model is asked");
    assert.equal((await stop(world, "k")).status, 200);
    assert.equal((await asked.reply()).status, 499);
    await until(() => world.gateway.sessions.length === 0, "nothing is left of it");
    const again = await ask(world, "k", more).reply();
    assert.deepEqual([again.status, again.error, world.model.calls.length], [410, STOPPED, 1]);
  });
}

test("a stop that overtakes its request is kept for it; another key, and another principal's, stop nothing", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]));
  assert.equal((await stop(world, "k")).status, 200);
  assert.equal((await ask(world, "k").reply()).error, STOPPED);
  assert.equal(world.model.calls.length, 0);
  await stop(world, "other", BOB_KEY);
  assert.equal((await ask(world, "other").reply()).text, "Yes.");
  const unnamed = new Exchange(world.url, undefined, { method: "DELETE", path: CHAT });
  assert.equal((await unnamed.reply()).status, 400);
});

test("a stop that the process does not outlive is remembered: the next one ends the answer and generates nothing", async (t) => {
  const world = await World.begin(t, endless({ isSpeaking: true }), ALONE);
  const asked = ask(world, "k");
  await asked.until("One ");
  // The stop's own row is the last write of this process.
  world.life.dieAt = world.life.writes + 1;
  const unanswered = stop(world, "k");
  await world.life.died.promise;
  await world.restart();
  await unanswered;
  await until(() => world.gateway.sessions.length === 0, "it is ended");
  const resumed = new Exchange(world.url, undefined, { method: "GET", path: await asked.resumePath() });
  assert.equal((await resumed.reply()).error, "aborted_error stopped");
  assert.equal((await ask(world, "k").reply()).error, STOPPED);
  assert.equal(world.model.calls.length, 1);
});
