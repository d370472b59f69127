/** What sessions leave behind is given back, and what one of them still needs is not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, Exchange, type Reply, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const DAY_MS = 24 * 60 * 60_000;

test("F2: the server keeps a conversation as long as it can be continued, and then deletes it", async (t) => {
  const world = await World.begin(t, new PacedModel((call) => [`You said ${lastTold(call)}`]), {
    limits: { sessionTtlMs: 10 * DAY_MS },
  });
  const ask = (messages: readonly object[]): Promise<Reply> =>
    new Exchange(world.url, bodyOf(messages.map((line) => ({ ...line })))).reply();
  const first = [user("Remember me")];
  const reply = await ask(first);
  assert.equal((await world.conversations()).length, 1);

  world.nowMs += 2 * DAY_MS;
  await world.sweep();
  assert.equal((await world.conversations()).length, 1, "its time is not over");
  const again = await ask([...first, said(reply), user("And now?")]);
  assert.equal(again.text, "You said And now?");
  assert.equal(world.gateway.counters.continuedConversations, 1);

  world.nowMs += 9 * DAY_MS;
  await world.sweep();
  assert.equal((await world.conversations()).length, 1, "its time begins with each turn");

  world.nowMs += 2 * DAY_MS;
  await world.sweep();
  await world.gateway.cleanUp();
  assert.deepEqual(await world.conversations(), []);
  assert.deepEqual(await world.rows("gateway_sessions"), []);
});
