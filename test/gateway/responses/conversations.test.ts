/**
 * Conversations that clients name, by the real `openai` SDK: each response in one has read what was said before it, whatever breaks.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import OpenAI, { ConflictError, NotFoundError } from "openai";
import type { ConversationItem } from "openai/resources/conversations";
import type { Tool } from "openai/resources/responses/responses";
import { ModelFailure } from "../../../src/agent/index.ts";
import { ALICE_KEY, BOB_KEY } from "../../server/http/rig.ts";
import { lastTold, PacedModel, type PacedScript } from "../paced-model.ts";
import { World } from "../world.ts";

const NOTE: Tool = {
  type: "function",
  name: "note",
  parameters: { type: "object", properties: { text: { type: "string" } } },
  strict: false,
};
const MODEL = { model: "paced/model", tools: [NOTE] };

/** Says how many messages it was told, and the last one. */
const SCRIPT: PacedScript = (call) => {
  const told = lastTold(call);
  if (told === "fail") throw new ModelFailure("unavailable", "the provider is out of order");
  if (told === "note") return [{ tool: "note", args: { text: "one" } }];
  return [`${call.messages.length}: ${told}`];
};

async function begin(t: TestContext) {
  const world = await World.begin(t, new PacedModel(SCRIPT));
  const clientOf = (apiKey: string, maxRetries = 0): OpenAI =>
    new OpenAI({ baseURL: `${world.url}/v1`, apiKey, maxRetries });
  return { world, openai: clientOf(ALICE_KEY), patient: clientOf(ALICE_KEY, 2), other: clientOf(BOB_KEY) };
}

function textOf(item: ConversationItem): string {
  if (item.type === "function_call_output") return `result ${JSON.stringify(item.output)}`;
  if (item.type !== "message") return item.type;
  return item.content.map((part) => ("text" in part ? part.text : "")).join("");
}

async function textsIn(openai: OpenAI, id: string): Promise<readonly string[]> {
  const items = await Array.fromAsync(openai.conversations.items.list(id, { order: "asc", limit: 2 }));
  return items.map(textOf);
}

test("responses continue a conversation, item for item, in one session, also when the server was killed", async (t) => {
  const { world, patient: openai } = await begin(t);
  const items = [{ type: "message" as const, role: "user" as const, content: "I am Ada." }];
  const { id } = await openai.conversations.create({ items, metadata: { of: "Ada" } });
  assert.match(id, /^conv_[0-9a-f]{32}$/);
  const first = await openai.responses.create({ ...MODEL, conversation: id, input: "hello" });
  assert.deepEqual([first.output_text, first.conversation], ["2: hello", { id }]);
  await world.restart();
  const called = await openai.responses.create({ ...MODEL, conversation: { id }, input: "note" });
  const [call] = called.output;
  assert.ok(call?.type === "function_call");
  const result = { type: "function_call_output" as const, call_id: call.call_id, output: "noted" };
  const last = await openai.responses.create({ ...MODEL, conversation: id, input: [result] });
  assert.equal(last.output_text, "6: noted");
  assert.deepEqual(await textsIn(openai, id), [
    "I am Ada.",
    "hello",
    "2: hello",
    "note",
    "function_call",
    'result "noted"',
    "6: noted",
  ]);
  assert.equal(world.gateway.counters.continuedConversations, 1);
  assert.equal(world.gateway.counters.continuedTurns, 1);
});

test("a conversation is changed, its items are added, looked at and taken out, and it is deleted; another principal has none of it", async (t) => {
  const { openai, other } = await begin(t);
  const { id, metadata } = await openai.conversations.create();
  assert.deepEqual(metadata, {});
  await openai.responses.create({ ...MODEL, conversation: id, input: "hello" });
  const added = await openai.conversations.items.create(id, {
    items: [{ type: "message", role: "user", content: "and more" }],
  });
  assert.deepEqual(added.data.map(textOf), ["and more"]);
  const [newest] = (await openai.conversations.items.list(id)).data;
  assert.ok(newest?.type === "message");
  const found = await openai.conversations.items.retrieve(newest.id, { conversation_id: id });
  assert.equal(textOf(found), "and more");
  const all = (await openai.conversations.items.list(id, { order: "asc" })).data;
  for (const at of [0, 2]) {
    const item = all[at];
    assert.ok(item?.type === "message");
    await openai.conversations.items.delete(item.id, { conversation_id: id });
  }
  assert.deepEqual(await textsIn(openai, id), ["1: hello"]);
  const answer = await openai.responses.create({ ...MODEL, conversation: id, input: "so?" });
  assert.equal(answer.output_text, "2: so?");
  const changed = await openai.conversations.update(id, { metadata: { of: "Bob" } });
  assert.deepEqual((await openai.conversations.retrieve(id)).metadata, changed.metadata);
  for (const foreign of [
    other.conversations.retrieve(id),
    other.conversations.delete(id),
    other.responses.create({ ...MODEL, conversation: id, input: "hello" }),
  ])
    await assert.rejects(foreign, NotFoundError);
  assert.deepEqual(await openai.conversations.delete(id), {
    id,
    object: "conversation.deleted",
    deleted: true,
  });
  await assert.rejects(openai.conversations.retrieve(id), NotFoundError);
});

test("of two responses at once the second is told to wait, and then has read the first; a retry of the first is no second", async (t) => {
  const { world, openai } = await begin(t);
  const { id } = await openai.conversations.create();
  const gate = Promise.withResolvers<void>();
  world.model.script = (call, count) =>
    lastTold(call) === "hello" ? ["1: hello", () => gate.promise, "."] : SCRIPT(call, count);
  const first = { ...MODEL, conversation: id, input: "hello", stream: true as const };
  const broken = await openai.responses.create(first);
  for await (const event of broken) if (event.type === "response.output_text.delta") break;
  await assert.rejects(
    openai.responses.create({ ...MODEL, conversation: id, input: "me too" }),
    (error) => error instanceof ConflictError && error.code === "conversation_locked",
  );
  const again = openai.responses.create(first);
  gate.resolve();
  const events = await Array.fromAsync(await again);
  const end = events.at(-1);
  assert.ok(end?.type === "response.completed");
  assert.equal(world.model.calls.length, 1);
  const second = await openai.responses.create({ ...MODEL, conversation: id, input: "me too" });
  assert.equal(second.output_text, "3: me too");
});

test("a response that failed leaves nothing in its conversation, and does not close it", async (t) => {
  const { openai } = await begin(t);
  const { id } = await openai.conversations.create();
  await assert.rejects(openai.responses.create({ ...MODEL, conversation: id, input: "fail" }));
  const next = await openai.responses.create({ ...MODEL, conversation: id, input: "hello" });
  assert.equal(next.output_text, "1: hello");
  assert.deepEqual(await textsIn(openai, id), ["hello", "1: hello"]);
});

test("nothing of a conversation can be read on the disk, and its time ends with it", async (t) => {
  const { world, openai } = await begin(t);
  const canary = "The canary sings.";
  const { id } = await openai.conversations.create({
    items: [{ type: "message", role: "user", content: canary }],
  });
  const rows = await world.rows("gateway_conversations");
  assert.equal(rows.length, 1);
  for (const { key, value } of rows)
    assert.ok(!key.includes(id) && !Buffer.from(value).includes(canary) && !Buffer.from(value).includes(id));
  world.nowMs += 31 * 24 * 60 * 60 * 1000;
  await assert.rejects(openai.conversations.retrieve(id), NotFoundError);
});
