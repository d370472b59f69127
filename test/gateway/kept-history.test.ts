/**
 * What keeping a history costs, and when it is kept: counted at the log of the server, which keeps it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, Exchange, type Line, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { ALONE, World } from "./world.ts";

const LENGTH = 60;

function history(name: string): readonly Line[] {
  return Array.from({ length: LENGTH }, (_, at): Line => {
    const content = `${name} ${at}`;
    return at % 2 === 0 ? user(content) : { role: "assistant", content };
  });
}

/** How many blobs each append to the log brings along. */
function watchAppends({ life }: World): readonly number[] {
  const counts: number[] = [];
  life.onWrite = (name, given) => {
    const [, , , blobs] = given;
    if (name === "append") counts.push(Array.isArray(blobs) ? blobs.length : 0);
  };
  return counts;
}

test("A4, C4: a history is kept by the commit of the first event, and the next turn keeps what is new", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]));
  const counts = watchAppends(world);
  const lines = [...history("told"), user("One?")];
  const first = await new Exchange(world.url, bodyOf(lines)).reply();
  assert.equal(first.text, "Yes.");
  assert.equal(counts.filter((count) => count >= LENGTH).length, 1, "all messages in one commit");
  const before = counts.reduce((sum, count) => sum + count, 0);
  const second = await new Exchange(world.url, bodyOf([...lines, said(first), user("Two?")])).reply();
  assert.equal(second.text, "Yes.");
  assert.equal(world.gateway.counters.continuedConversations, 1);
  const more = counts.reduce((sum, count) => sum + count, 0) - before;
  assert.equal(more, 2, "the question and the answer");
});

test("C4: what does not fit into the request is kept before its stream is opened, and is there after a restart", async (t) => {
  const world = await World.begin(
    t,
    new PacedModel((call) => [`${call.messages.length} of ${JSON.stringify(call.messages).length}`]),
  );
  const long = "la ".repeat(200_000);
  const lines = [user(long), { role: "assistant", content: "Nice." }, user("Go on")];
  const first = await new Exchange(world.url, bodyOf(lines)).reply();
  assert.match(first.text, /^3 of 600\d+$/);
  await world.restart();
  const second = await new Exchange(world.url, bodyOf([...lines, said(first), user("And on")])).reply();
  assert.match(second.text, /^5 of 600\d+$/);
  assert.equal(world.gateway.counters.continuedConversations, 1);
  assert.equal(lastTold(world.model.calls.at(-1) ?? assert.fail("no call")), "And on");
});

test("G7: a process that dies before the rows behind an answer leaves them to the next one, which reads the log and asks no model", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]), ALONE);
  let batches = 0;
  world.life.onWrite = (name) => {
    if (name === "batch" && ++batches === 2) world.life.die();
  };
  const lines = [user("One?")];
  const first = await new Exchange(world.url, bodyOf(lines)).reply();
  assert.equal(first.text, "Yes.", "no row is waited for");
  await world.restart();
  const second = await new Exchange(world.url, bodyOf([...lines, said(first), user("Two?")])).reply();
  assert.equal(second.text, "Yes.");
  assert.equal(world.gateway.counters.continuedConversations, 1);
  assert.equal(world.model.calls.length, 2);
});
