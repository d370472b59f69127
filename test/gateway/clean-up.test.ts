/** What sessions leave behind is given back, and what one of them still needs is not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClientBlobStore, damagedBlob, putBytes } from "../../src/client/agent/blob-store.ts";
import { bodyOf, Exchange, type Reply, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const DAY_MS = 24 * 60 * 60_000;

async function count(blobs: { list(): AsyncIterable<unknown> }): Promise<number> {
  let found = 0;
  for await (const _ of blobs.list()) found++;
  return found;
}

test("F2: old blobs that no session reaches are deleted; a conversation that can be continued keeps its own", async (t) => {
  const world = await World.begin(t, new PacedModel((call) => [`You said ${lastTold(call)}`]), {
    limits: { sessionTtlMs: 10 * DAY_MS },
  });
  const ask = (messages: readonly object[]): Promise<Reply> =>
    new Exchange(world.url, bodyOf(messages.map((line) => ({ ...line })))).reply();
  const first = [user("Remember me")];
  const reply = await ask(first);
  const { blobs } = world.clientOf("alice");
  const before = await count(blobs);
  assert.ok(before > 0);
  assert.equal(await world.gateway.cleanUp(blobs), 0, "nothing is old");

  world.nowMs += 2 * DAY_MS;
  assert.equal(await world.gateway.cleanUp(blobs), 0, "all of it is reached");
  const again = await ask([...first, said(reply), user("And now?")]);
  assert.equal(again.text, "You said And now?");
  assert.equal(world.gateway.counters.continuedConversations, 1);

  world.nowMs += 20 * DAY_MS;
  const deleted = await world.gateway.cleanUp(blobs);
  assert.ok(deleted >= before, "the sessions have ended, and so have their blobs");
  assert.equal(await count(blobs), 0);
});

test("no blob is deleted while one is damaged: it might name any of them", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Well."]), {
    limits: { sessionTtlMs: 10 * DAY_MS },
  });
  await new Exchange(world.url, bodyOf([user("Remember me")])).reply();
  const { blobs } = world.clientOf("alice");
  await putBytes(blobs, new Uint8Array(100));
  const damaged: ClientBlobStore = {
    get: (id) => Promise.reject(damagedBlob(id)),
    put: (id, bytes) => blobs.put(id, bytes),
    list: () => blobs.list(),
    delete: (id, storedMs) => blobs.delete(id, storedMs),
  };
  world.nowMs += 2 * DAY_MS;
  assert.equal(await world.gateway.cleanUp(damaged), 0);
  assert.equal(
    await world.gateway.cleanUp(blobs),
    1,
    "what no conversation reaches goes when all can be read",
  );
});
