/**
 * The process dies while tool results are on their way into the stream: ahead of every batch of rows that they cause. The retry finds its
 * session, whatever of them was durable: no stream begins anew, and no tool's result is told twice.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Accept } from "../../../src/transport/index.ts";
import { bodyOf, Exchange, type Reply, result, said, user } from "../openai-user.ts";
import { lastTold, PacedModel } from "../paced-model.ts";
import { World, type WorldOptions } from "../world.ts";

const model = (): PacedModel =>
  new PacedModel((call) =>
    lastTold(call) === "Look"
      ? [
          { tool: "look", args: { at: 1 } },
          { tool: "touch", args: { at: 2 } },
        ]
      : ["Done."],
  );

/** Asks for tools, and has the body with their results. */
async function parked(t: TestContext): Promise<{ world: World; first: Reply; body: string }> {
  const world = await World.begin(t, model());
  const first = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  assert.equal(first.calls.length, 2);
  const results = first.calls.map(({ id, name }) => result(id, `${name} seen`));
  return { world, first, body: bodyOf([user("Look"), said(first), ...results]) };
}

/** What the model was told of its tools in the last call. */
function toldOf({ model: { calls } }: World): string {
  return JSON.stringify(calls.at(-1)?.messages.filter(({ role }) => role === "tool"));
}

test("killed ahead of any batch of rows that tool results cause, their retry finds its session", async (t) => {
  const whole = await parked(t);
  const before = whole.world.life.batches;
  const expected = await new Exchange(whole.world.url, whole.body).reply();
  assert.deepEqual([expected.text, expected.streamId], ["Done.", whole.first.streamId]);
  const batches = whole.world.life.batches - before;
  assert.ok(batches >= 2, `${batches} batches`);
  for (let at = 1; at <= batches; at++) {
    await t.test(`ahead of batch ${at} of ${batches}`, async (each) => {
      const { world, first, body } = await parked(each);
      const { life } = world;
      life.loseBatch = life.batches + at;
      void life.died.promise.then(() => world.cable.unplug());
      const broken = await new Exchange(world.url, body).reply();
      if (!broken.isWhole) await world.restart();
      const reply = broken.isWhole ? broken : await new Exchange(world.url, body).reply();
      assert.deepEqual([reply.text, reply.streamId], ["Done.", first.streamId]);
      assert.deepEqual(
        [...world.gateway.counters.fresh.keys()].filter((reason) => reason !== "new"),
        [],
      );
      assert.ok(world.model.calls.length <= 3, `${world.model.calls.length} model calls`);
      assert.equal(toldOf(world), toldOf(whole.world));
    });
  }
});

/** The same with words of the user behind the results, and a model that thinks for long enough to be interrupted by more of them. */
async function parkedWithWords(
  t: TestContext,
  options: WorldOptions = {},
): Promise<{ world: World; first: Reply; body: string }> {
  const thinking = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));
  const slow = new PacedModel((call) =>
    lastTold(call) === "Look"
      ? [
          { tool: "look", args: {} },
          { tool: "touch", args: {} },
        ]
      : [thinking, "Done."],
  );
  const world = await World.begin(t, slow, options);
  const first = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const results = first.calls.map(({ id, name }) => result(id, `${name} seen`));
  return { world, first, body: bodyOf([user("Look"), said(first), ...results, user("And hurry")]) };
}

function timesTold(call: { readonly messages: unknown } | undefined, words: string): number {
  return JSON.stringify(call?.messages).split(words).length - 1;
}

test("killed at any write that two results with words cause: the model is told each once, in the same session, and answers once", async (t) => {
  const whole = await parkedWithWords(t);
  const before = whole.world.life.writes;
  const expected = await new Exchange(whole.world.url, whole.body).reply();
  assert.equal(expected.text, "Done.");
  assert.equal(whole.world.model.calls.length, 2, "results and words are heard together");
  // The last ones are behind the end of the response.
  const writes = whole.world.life.writes - before;
  assert.ok(writes >= 3, `${writes} writes`);
  for (let at = 1; at <= writes; at++) {
    await t.test(`at write ${at} of ${writes}`, async (each) => {
      const { world, first, body } = await parkedWithWords(each);
      const { life } = world;
      life.dieAt = life.writes + at;
      void life.died.promise.then(() => world.cable.unplug());
      const broken = await new Exchange(world.url, body).reply();
      life.dieAt = undefined;
      if (!broken.isWhole) await world.restart();
      const reply = broken.isWhole ? broken : await new Exchange(world.url, body).reply();
      assert.deepEqual([reply.text, reply.streamId], ["Done.", first.streamId], "the session is used again");
      assert.equal(toldOf(world), toldOf(whole.world), "each result once, and none unknown");
      for (const call of world.model.calls) assert.ok(timesTold(call, "And hurry") <= 1, "not twice");
      assert.equal(timesTold(world.model.calls.at(-1), "And hurry"), 1, "the answer knows the words");
    });
  }
});

/** The results of two tools, and the words. */
const CHUNKS = 3;

/** Lets some chunks through to the server, and calls `kill` when they are durable and the others are not there. */
class Sieve {
  left = Infinity;
  kill: () => void = () => assert.fail("a sieve that lets all through kills nothing");

  through(accept: Accept): Accept {
    return (meta, wire) => {
      let last = -1;
      const handler = accept(meta, {
        write: (frames) => {
          const waiting = wire.write(frames);
          const isAcked = frames.some((frame) => frame.kind === "ack" && frame.seqno >= last);
          if (isAcked && last >= 0 && this.left === 0) this.kill();
          return waiting;
        },
        end: () => wire.end(),
      });
      return {
        received: (frame) => {
          if (frame.kind !== "chunk" || this.left === Infinity) return handler.received(frame);
          if (this.left > 0) {
            this.left--;
            last = frame.seqno;
            handler.received(frame);
          } else if (last < 0) {
            this.kill();
          }
        },
        drained: () => handler.drained(),
        closed: (reason) => handler.closed(reason),
      };
    };
  }
}

test("A8: killed between each two chunks of a request with two results and words, its retry says them again, and each is heard once", async (t) => {
  const whole = await parkedWithWords(t);
  assert.equal((await new Exchange(whole.world.url, whole.body).reply()).text, "Done.");
  for (let heard = 0; heard <= CHUNKS; heard++) {
    await t.test(`${heard} of ${CHUNKS} chunks are durable`, async (each) => {
      const sieve = new Sieve();
      const { world, first, body } = await parkedWithWords(each, {
        through: (accept) => sieve.through(accept),
      });
      const { life } = world;
      sieve.kill = () => life.die();
      void life.died.promise.then(() => world.cable.unplug());
      sieve.left = heard;
      const broken = await new Exchange(world.url, body).reply();
      assert.ok(life.isDead && !broken.isWhole, "it was killed in the middle of the request");
      sieve.left = Infinity;
      await world.restart();
      const reply = await new Exchange(world.url, body).reply();
      assert.deepEqual([reply.text, reply.streamId], ["Done.", first.streamId], "the session is used again");
      assert.equal(toldOf(world), toldOf(whole.world), "each result once, and none unknown");
      assert.equal(timesTold(world.model.calls.at(-1), "And hurry"), 1, "the words once");
    });
  }
});
