/**
 * The process dies at every single one of its durable writes, of a conversation with a tool and a second question, and another begins on
 * the same disks. The client sends again what it did not get, and has the whole conversation, with at most one model call more.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { World } from "../world.ts";
import { converse, numberedModel, type Talk } from "./conversation.ts";

const CALLS = 3;

async function rehearse(
  t: TestContext,
  dieAt?: number,
): Promise<{ readonly talk: Talk; readonly world: World; readonly writes: number }> {
  const world = await World.begin(t, numberedModel());
  const { life } = world;
  life.dieAt = dieAt;
  void life.died.promise.then(() => world.cable.unplug());
  const talk = await converse(world, () => world.restart());
  return { talk, world, writes: life.writes };
}

test("killed at any durable write, the conversation goes on, with at most one model call more", async (t) => {
  const whole = await rehearse(t);
  assert.equal(whole.talk.retries, 0);
  assert.equal(whole.world.model.calls.length, CALLS);
  assert.ok(whole.writes > 10, `only ${whole.writes} writes: nothing much happens`);
  let continued = 0;
  let told = 0;
  for (let dieAt = 1; dieAt <= whole.writes; dieAt++) {
    await t.test(`at write ${dieAt}`, async (each) => {
      const { talk, world } = await rehearse(each, dieAt);
      assert.ok(world.model.calls.length <= CALLS + 1, `${world.model.calls.length} model calls`);
      assert.ok(talk.retries <= 1, `${talk.retries} retries`);
      const { counters } = world.gateway;
      continued += counters.continuedTurns + counters.continuedConversations;
      told += counters.attached + counters.replayed;
    });
  }
  t.diagnostic(
    `${whole.writes} writes; after them ${continued} answers went on, ${told} retries were told what there was`,
  );
  assert.ok(told > whole.writes / 4, "most retries are spared the model");
});

/** What a process has said before it died still arrives. */
const ARRIVAL_MS = 10;

test("killed ahead of any batch of rows, the conversation goes on, with at most one model call more", async (t) => {
  const whole = await World.begin(t, numberedModel());
  await converse(whole, async () => assert.fail("nothing was killed"));
  const { batches } = whole.life;
  for (let at = 1; at <= batches; at++) {
    await t.test(`ahead of batch ${at}`, async (each) => {
      const world = await World.begin(each, numberedModel());
      const { life } = world;
      life.loseBatch = at;
      void life.died.promise.then(() => setTimeout(() => world.cable.unplug(), ARRIVAL_MS));
      let replies = 0;
      await converse(
        world,
        () => world.restart(),
        () => (replies += 1),
      );
      assert.ok(world.model.calls.length <= CALLS + 1, `${world.model.calls.length} model calls`);
      assert.ok(replies <= CALLS + 1);
    });
  }
});
