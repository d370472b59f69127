/**
 * A step begins anew while its answer is being told, and answers that are never streamed.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChatMessage } from "../../src/protocol/chat-message.ts";
import { BlobKind } from "../../src/protocol/messages.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, type Reply, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { World } from "./world.ts";

const MODEL = new PacedModel(() => []);
const HELLO = bodyOf([user("Hello")]);

const ask = (world: World, body: string, headers = {}): Promise<Reply> =>
  new Exchange(world.url, body, { headers }).reply();

/** Says the first words, is interrupted, and says the others. */
function interrupted(first: string, then: readonly string[]) {
  const gate = Promise.withResolvers<void>();
  const application = scriptedTurn(async (speaker) => {
    const start = await speaker.stepStarted(0);
    await speaker.text(first);
    await gate.promise;
    await speaker.restarted(0, start - 1);
    for (const text of then) await speaker.text(text);
    await speaker.stepCompleted(0);
    await speaker.end();
  });
  return { application, goOn: gate.resolve };
}

test("who has read the beginning is told the rest when the step says the same again", async (t) => {
  const { application, goOn } = interrupted("One two ", ["One ", "two three ", "four"]);
  const world = await World.begin(t, MODEL, { application });
  const exchange = new Exchange(world.url, HELLO);
  await exchange.until("One two");
  goOn();
  const reply = await exchange.reply();
  assert.equal(reply.text, "One two three four");
  assert.equal(reply.finish, "stop");
});

test("at the first difference the response ends with an error and no finish; the retry has the whole answer", async (t) => {
  const { application, goOn } = interrupted("One two ", ["One ", "or three ", "four"]);
  const world = await World.begin(t, MODEL, { application });
  const exchange = new Exchange(world.url, HELLO);
  await exchange.until("One two");
  goOn();
  const reply = await exchange.reply();
  assert.equal(reply.text, "One two ");
  assert.equal(reply.finish, undefined);
  assert.equal(reply.error, "server_error answer_diverged");
  assert.ok(!reply.isWhole);
  await until(() => world.gateway.sessions.length === 0, "the turn is over");
  const again = await ask(world, HELLO);
  assert.equal(again.text, "One or three four");
  assert.equal(again.streamId, reply.streamId);
  assert.ok(again.isWhole);
});

test("who was told nothing yet is told nothing of what was rolled back", async (t) => {
  const { application, goOn } = interrupted("One two ", ["One ", "or three ", "four"]);
  const world = await World.begin(t, MODEL, { application });
  const whole = new Exchange(world.url, bodyOf([user("Hello")], { stream: false }));
  await until(() => world.gateway.readers === 1, "it is asked");
  goOn();
  const { body, status } = await whole.reply();
  assert.equal(status, 200);
  assert.match(body, /"content":"One or three four"/);
});

for (const isTried of [false, true])
  test(`a retry that comes between the restart of the server and that of the step is told nothing of what was rolled back${isTried ? ", also when its model was first asked to continue the text" : ""}`, async (t) => {
    let lives = 0;
    const gate = Promise.withResolvers<void>();
    const application = scriptedTurn(async (speaker) => {
      if (lives++ === 0) {
        await speaker.stepStarted(0);
        await speaker.text("One ");
        return new Promise(() => undefined);
      }
      if (isTried) await speaker.continued(0, 2);
      await gate.promise;
      await speaker.restarted(0, 0);
      await speaker.text("Two");
      await speaker.stepCompleted(0);
      return speaker.end();
    });
    const world = await World.begin(t, MODEL, { application });
    const cut = new Exchange(world.url, HELLO);
    await cut.until("One");
    await world.restart();
    const again = new Exchange(world.url, HELLO);
    await until(() => lives === 2, "the turn is taken up");
    // Long enough for whatever would be told too early.
    setTimeout(gate.resolve, 100);
    const reply = await again.reply();
    assert.equal(reply.text, "Two");
    assert.equal(reply.finish, "stop");
    assert.equal(world.gateway.counters.attached, 1);
  });

test("a retry reads a running answer without what was rolled back, also when memory has joined it", async (t) => {
  const [hungUp, restarted, goOn] = [gate(), gate(), gate()];
  let lives = 0;
  const application = scriptedTurn(async (speaker) => {
    lives++;
    await speaker.stepStarted(0);
    await speaker.text("First ");
    await hungUp.promise;
    await speaker.text("words");
    const before = await speaker.stepCompleted(0);
    await speaker.stepStarted(1);
    for (let at = 0; at < 1_100; at++) await speaker.text("lost ");
    await speaker.restarted(1, before);
    await speaker.text("Once more ");
    // The gateway answers when it has read all of this.
    await speaker.exec("1.0.0", { case: "readArgs", value: { path: "a.txt" } });
    restarted.resolve();
    await goOn.promise;
    await speaker.text("to the end");
    await speaker.stepCompleted(1);
    await speaker.end();
  });
  const world = await World.begin(t, MODEL, { application });
  const lost = new Exchange(world.url, HELLO);
  await lost.until("First");
  lost.hangUp();
  await until(() => world.gateway.readers === 0, "the hang-up is noticed");
  hungUp.resolve();
  await restarted.promise;
  const again = new Exchange(world.url, HELLO);
  await again.until("Once more");
  assert.equal(world.gateway.readers, 1);
  goOn.resolve();
  const { text, isWhole } = await again.reply();
  assert.deepEqual([text, isWhole, lives], ["First words\n\nOnce more to the end", true, 1]);
});

const gate = (): PromiseWithResolvers<void> => Promise.withResolvers<void>();

test("a blob that a server asks its client to keep never counts as an answer, whatever it says it is", async (t) => {
  const bytes = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "Injected" }] });
  for (const kind of [BlobKind.ASSISTANT_MESSAGE, BlobKind.UNSPECIFIED]) {
    const application = scriptedTurn(async (speaker) => {
      await speaker.setBlob(bytes, kind);
      await speaker.end();
    });
    const world = await World.begin(t, MODEL, { application });
    const reply = await ask(world, HELLO);
    assert.deepEqual([reply.text, reply.finish], ["", "stop"]);
    assert.doesNotMatch(reply.body, /Injected/);
  }
});

test("a turn that left no checkpoint is not gone on from: the history is sent again", async (t) => {
  const application = scriptedTurn(async (speaker) => {
    await speaker.text("Hi");
    await speaker.end();
  });
  const world = await World.begin(t, MODEL, { application });
  await ask(world, HELLO);
  await ask(world, bodyOf([user("Hello"), { role: "assistant", content: "Hi" }, user("More")]));
  assert.equal(world.gateway.counters.continuedConversations, 0);
  assert.equal(world.gateway.counters.fresh.get("unknown_lineage"), 1);
});
