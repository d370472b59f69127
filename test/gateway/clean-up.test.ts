/** What sessions leave behind is given back, and what one of them still needs is not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ALICE_KEY, BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, Exchange, type Line, type Reply, said, user } from "./openai-user.ts";
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

test("a conversation outlives its streams: when the server has forgotten all of them, the next message continues it", async (t) => {
  const world = await World.begin(t, new PacedModel((call) => [`You said ${lastTold(call)}`]), {
    limits: { sessionTtlMs: DAY_MS },
  });
  const ask = (messages: readonly Line[]): Promise<Reply> =>
    new Exchange(world.url, bodyOf(messages)).reply();
  const reply = await ask([user("Remember me")]);
  await world.outliveStreams();
  await world.sweep();
  const next = await ask([user("Remember me"), said(reply), user("And now?")]);
  assert.deepEqual([next.text, world.gateway.counters.continuedConversations], ["You said And now?", 1]);
  assert.equal(
    JSON.stringify(world.model.calls.at(-1)?.messages).split("Remember me").length,
    3,
    "the words, and the answer to them",
  );
});

test("a conversation that its client deletes is gone at once, with what retries would get; others stay", async (t) => {
  const world = await World.begin(t, new PacedModel((call) => [`You said ${lastTold(call)}`]));
  const ask = (messages: readonly object[], key?: string): Promise<Reply> =>
    new Exchange(
      world.url,
      bodyOf(messages.map((line) => ({ ...line }))),
      key === undefined ? {} : { headers: { "idempotency-key": key } },
    ).reply();
  const first = await ask([user("Remember me")], "first");
  const other = await ask([user("Remember me too")]);
  const second = await ask([user("Remember me"), said(first), user("And now?")]);
  assert.equal((await world.conversations()).length, 2);
  const remove = (streamId: string, apiKey = ALICE_KEY): Promise<Response> =>
    fetch(`${world.url}/v1/conversations/${streamId}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${apiKey}` },
    });
  assert.equal(
    (await remove(second.streamId, BOB_KEY)).status,
    404,
    "another principal has no such conversation",
  );
  assert.equal((await world.conversations()).length, 2);
  const removed = await remove(second.streamId);
  assert.deepEqual(await removed.json(), {
    id: second.streamId,
    object: "conversation.deleted",
    deleted: true,
  });
  assert.equal((await world.conversations()).length, 1);
  assert.equal((await remove(second.streamId)).status, 404);
  const again = await ask([user("Remember me"), said(first), user("And now?"), said(second), user("Again")]);
  assert.equal(again.text, "You said Again", "a history that the client has is answered afresh");
  const calls = world.model.calls.length;
  await ask([user("Remember me")], "first");
  assert.equal(world.model.calls.length, calls + 1, "the answer is not kept");
  const next = await ask([user("Remember me too"), said(other), user("More")]);
  assert.equal(next.text, "You said More");
  assert.equal(world.gateway.counters.continuedConversations, 2);
});

test("a conversation that is deleted in the middle of an answer stops it", async (t) => {
  const model = new PacedModel(() => ["One ", "two ", () => new Promise<void>(() => undefined), "three"]);
  const world = await World.begin(t, model);
  const exchange = new Exchange(world.url, bodyOf([user("Go")]));
  await exchange.until("One ");
  await fetch(`${world.url}/v1/conversations/${await exchange.streamId()}`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${ALICE_KEY}` },
  });
  assert.deepEqual(await world.conversations(), []);
  assert.deepEqual(world.gateway.sessions, []);
});

test("a conversation that the server has lost costs one failed answer: the retry is answered from the client's history", async (t) => {
  const world = await World.begin(t, new PacedModel((call) => [`You said ${lastTold(call)}`]));
  const ask = (lines: readonly Line[]): Promise<Reply> => new Exchange(world.url, bodyOf(lines)).reply();
  const first = await ask([user("Remember me")]);
  await world.restart();
  await world.loseConversations();
  const lines = [user("Remember me"), said(first), user("And now?")];
  const failed = await ask(lines);
  assert.equal(failed.isWhole, false);
  assert.match(failed.body, /a part of the conversation is missing/);
  while ((await world.rows("gateway_sessions")).length > 0)
    await new Promise((resolve) => setImmediate(resolve));
  const retry = await ask(lines);
  assert.equal(retry.text, "You said And now?");
  assert.equal(world.model.calls.at(-1)?.messages.length, 3);
});
