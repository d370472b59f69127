/**
 * What is known in memory is not looked up: a read waits behind whatever the disk is syncing.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { bodyOf, Exchange, type Line, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { ALONE, World } from "./world.ts";

const model = (): PacedModel =>
  new PacedModel((call) => (lastTold(call) === "Look" ? [{ tool: "look", args: {} }] : ["Done."]));

/** The tables of which rows were read one by one. */
function watchReads(t: TestContext, { tables }: World): string[] {
  const read: string[] = [];
  const get = tables.get.bind(tables);
  t.mock.method(tables, "get", (at: Parameters<typeof get>[0]) => {
    if (at.table.startsWith("gateway") || at.table.startsWith("client_blob")) read.push(at.table);
    return get(at);
  });
  return read;
}

const ask = (world: World, lines: readonly Line[]): Promise<Reply> =>
  new Exchange(world.url, bodyOf(lines)).reply();

test("neither a new request nor the results for a turn that waits read a row of the gateway's", async (t) => {
  const world = await World.begin(t, model(), ALONE);
  const read = watchReads(t, world);
  const first = await ask(world, [user("Look")]);
  assert.equal(first.finish, "tool_calls");
  const results = first.calls.map(({ id }) => result(id, "seen"));
  const second = await ask(world, [user("Look"), said(first), ...results]);
  assert.equal(second.text, "Done.");
  assert.equal(second.streamId, first.streamId);
  assert.deepEqual(read, []);
});

test("after a restart the responses that were broken are known again, and read when they are asked for", async (t) => {
  const pause = Promise.withResolvers<void>();
  const world = await World.begin(
    t,
    new PacedModel((_, count) => (count === 1 ? ["One ", () => pause.promise, "two."] : ["One ", "two."])),
    ALONE,
  );
  const body = bodyOf([user("Count")]);
  const broken = new Exchange(world.url, body);
  await broken.until("One ");
  await world.restart();
  const read = watchReads(t, world);
  const again = await new Exchange(world.url, body).reply();
  assert.equal(again.text, "One two.");
  assert.equal(again.streamId, (await broken.reply()).streamId, "the same answer, not another one");
  assert.equal(read.filter((table) => table === "gateway_responses").length, 1);
  pause.resolve();
});
