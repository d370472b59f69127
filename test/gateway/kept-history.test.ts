/**
 * What keeping a history costs, and when it is kept: counted at the tables.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { TableWrite } from "../../src/store/index.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, type Line, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const LENGTH = 60;

function history(name: string): readonly Line[] {
  return Array.from({ length: LENGTH }, (_, at): Line => {
    const content = `${name} ${at}`;
    return at % 2 === 0 ? user(content) : { role: "assistant", content };
  });
}

const blobsIn = (writes: readonly TableWrite[]): number =>
  writes.filter(({ table }) => table === "client_blobs").length;

/** Every batch that is asked for, and how many blobs each holds. Those that `hold` wants wait for what it returns. */
function watchBatches(
  t: TestContext,
  { tables }: World,
  hold: (writes: readonly TableWrite[]) => Promise<void> | undefined = () => undefined,
): readonly number[] {
  const counts: number[] = [];
  const batch = tables.batch.bind(tables);
  t.mock.method(tables, "batch", async (...given: Parameters<typeof batch>) => {
    counts.push(blobsIn(given[0]));
    await hold(given[0]);
    return batch(...given);
  });
  return counts;
}

test("a history is kept by one write, and what was kept lately is not written again", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]));
  const counts = watchBatches(t, world);
  const ask = (question: string): Promise<{ readonly text: string }> =>
    new Exchange(world.url, bodyOf([...history("told"), user(question)])).reply();
  assert.equal((await ask("One?")).text, "Yes.");
  assert.equal(counts.filter((count) => count >= LENGTH).length, 1, "all messages in one batch");
  const before = counts.reduce((sum, count) => sum + count, 0);
  assert.equal((await ask("Two?")).text, "Yes.");
  const more = counts.reduce((sum, count) => sum + count, 0) - before;
  assert.ok(more < 10, `only what is new: ${more} blobs`);
});

test("C4: a session is saved, and its client told, only when the history that its stream names is durable", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]));
  const held = Promise.withResolvers<void>();
  watchBatches(t, world, (writes) => (blobsIn(writes) >= LENGTH ? held.promise : undefined));
  const exchange = new Exchange(world.url, bodyOf([...history("held"), user("Well?")]));
  await until(() => world.model.calls.length === 1, "the stream does not wait");
  await until(() => world.gateway.sessions.length === 1, "it is there in memory");
  assert.deepEqual(await world.rows("gateway_sessions"), []);
  assert.equal(exchange.hasCome("data:"), false);
  held.resolve();
  assert.equal((await exchange.reply()).text, "Yes.");
  assert.equal((await world.rows("gateway_sessions")).length, 1);
});

test("C4: a history that cannot be kept is no session: its stream is stopped, and the retry gets another one", async (t) => {
  const pause = Promise.withResolvers<void>();
  const world = await World.begin(
    t,
    new PacedModel((_, count) => (count === 1 ? [() => pause.promise, "No."] : ["Yes."])),
  );
  let isFull = true;
  watchBatches(t, world, (writes) =>
    isFull && blobsIn(writes) >= LENGTH ? Promise.reject(new Error("the disk is full")) : undefined,
  );
  const body = bodyOf([...history("lost"), user("Well?")]);
  assert.equal((await new Exchange(world.url, body).reply()).status, 500);
  isFull = false;
  await until(() => world.gateway.sessions.length === 0, "its stream has ended");
  assert.equal((await new Exchange(world.url, body).reply()).text, "Yes.");
  assert.equal(world.gateway.counters.attached + world.gateway.counters.replayed, 0);
  pause.resolve();
});
