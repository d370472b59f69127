/**
 * A client is given the name of an answer, by which it returns, only when the stream of the answer is on the disk: a server that is killed then can continue it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, Exchange, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { ALONE, World } from "./world.ts";

const RESPONSE = JSON.stringify({ model: "paced/model", input: "Think", background: true });
const ASKED = {
  "a streamed answer that says nothing for long": (world: World) =>
    new Exchange(world.url, bodyOf([user("Think")])),
  "a response in the background": (world: World) =>
    new Exchange(world.url, RESPONSE, { path: "/v1/responses" }),
};

for (const [what, ask] of Object.entries(ASKED))
  test(`G6: ${what} has no name before its stream is on the disk`, async (t) => {
    const { promise: thinking, resolve: think } = Promise.withResolvers<void>();
    const application = scriptedTurn(async (speaker) => {
      await speaker.stepStarted(0);
      await thinking;
      await speaker.text("Well.");
      await speaker.stepCompleted(0);
      await speaker.end();
    });
    const httpLimits = { headHeldMs: 1 };
    const world = await World.begin(t, new PacedModel(() => []), { ...ALONE, application, httpLimits });
    // Rows of the gateway are on the disk by then.
    const { appends, batches } = world.life;
    world.life.loseAppend = appends + 1;
    const lost = ask(world);
    await world.life.died.promise;
    assert.equal(world.life.batches, batches + 1);
    // What could leave has come with these, on the same cable.
    for (let turn = 0; turn < 3; turn++)
      await new Exchange(world.url, undefined, { path: "/v1/models", method: "GET" }).reply();
    await world.restart();
    lost.hangUp();
    assert.equal((await lost.reply()).body, "");
    const kept = ask(world);
    await kept.until("model");
    think();
  });
