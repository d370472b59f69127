/**
 * E2: nothing that the gateway keeps of one principal is found by another, table by table: answers by Idempotency-Key and by
 * body, sessions by tool call id, by lineage and by stream. And within one principal every stream has names of its own.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../e2e/rig.ts";
import { ALICE_KEY, BOB_KEY } from "../server/http/rig.ts";
import { type Asking, bodyOf, Exchange, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

/** Each call says its number; asked to look, it calls a tool. */
function countingModel(): PacedModel {
  return new PacedModel((call, count) => {
    const told = lastTold(call);
    return told.startsWith("Look") ? [{ tool: "look", args: {} }] : [`Call ${count} heard ${told}.`];
  });
}

const ask = (world: World, body: string, asking: Asking = {}): Promise<Reply> =>
  new Exchange(world.url, body, asking).reply();

const HELLO = bodyOf([user("Hello")]);

test("E2: an Idempotency-Key belongs to its principal: another's is another request, whatever its body", async (t) => {
  const model = countingModel();
  const world = await World.begin(t, model);
  const headers = { "idempotency-key": "the-same-name" };
  const alice = await ask(world, HELLO, { headers, apiKey: ALICE_KEY });
  const bob = await ask(world, HELLO, { headers, apiKey: BOB_KEY });
  assert.deepEqual([alice.text, bob.text], ["Call 1 heard Hello.", "Call 2 heard Hello."]);
  assert.equal((await ask(world, HELLO, { headers, apiKey: ALICE_KEY })).text, alice.text);
  assert.equal((await ask(world, HELLO, { headers, apiKey: BOB_KEY })).text, bob.text);
  assert.equal(model.calls.length, 2);
});

test("E2: an answer that did not arrive is for its own principal's retry, not for another's equal request", async (t) => {
  const gate = Promise.withResolvers<void>();
  const model = new PacedModel((_, count) => [`Call ${count} begins. `, () => gate.promise, "It ends."]);
  const world = await World.begin(t, model);
  const broken = new Exchange(world.url, HELLO, { apiKey: ALICE_KEY });
  await broken.until("begins");
  broken.hangUp();
  await until(() => world.gateway.readers === 0, "the hang-up is noticed");
  const bob = new Exchange(world.url, HELLO, { apiKey: BOB_KEY });
  await bob.until("begins");
  gate.resolve();
  assert.equal((await bob.reply()).text, "Call 2 begins. It ends.");
  assert.equal((await ask(world, HELLO, { apiKey: ALICE_KEY })).text, "Call 1 begins. It ends.");
});

test("E2: a finished conversation is continued by its own principal alone", async (t) => {
  const model = countingModel();
  const world = await World.begin(t, model);
  const first = await ask(world, HELLO, { apiKey: ALICE_KEY });
  const next = bodyOf([user("Hello"), said(first), user("And now?")]);
  await ask(world, next, { apiKey: BOB_KEY });
  assert.equal(world.gateway.counters.continuedConversations, 0);
  assert.equal(world.gateway.counters.fresh.get("unknown_lineage"), 1);
  await ask(world, next, { apiKey: ALICE_KEY });
  assert.equal(world.gateway.counters.continuedConversations, 1);
});

test("A8: the first tool calls of two streams have different ids, and each result finds its own stream", async (t) => {
  const world = await World.begin(t, countingModel());
  const histories = [[user("Look left")], [user("Look right")]] as const;
  const replies = [await ask(world, bodyOf(histories[0])), await ask(world, bodyOf(histories[1]))] as const;
  const ids = replies.map(({ calls }) => calls[0]?.id ?? "");
  assert.notEqual(ids[0], ids[1]);
  for (const at of [1, 0] as const) {
    const results = [...histories[at], said(replies[at]), result(ids[at] ?? "", `seen ${at}`)];
    const next = await ask(world, bodyOf(results));
    assert.equal(next.streamId, replies[at].streamId);
    assert.match(next.text, new RegExp(`heard seen ${at}`));
  }
});

test("a message to a session that waits for tools is a stream of its own; the session waits on", async (t) => {
  const world = await World.begin(t, countingModel());
  const asked = [user("Look left")];
  const calling = await ask(world, bodyOf(asked));
  const [call = assert.fail("it calls a tool")] = calling.calls;
  const instead = await ask(world, bodyOf([...asked, said(calling), user("Never mind")]));
  assert.notEqual(instead.streamId, calling.streamId);
  assert.equal(world.gateway.counters.continuedConversations, 0);
  const results = await ask(world, bodyOf([...asked, said(calling), result(call.id, "seen")]));
  assert.equal(results.streamId, calling.streamId);
  assert.match(results.text, /heard seen/);
});
