/** What the server remembers of conversations, within bounds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BlobCache, blobIdOf } from "../../src/agent/blobs.ts";
import { TurnIo } from "../../src/agent/turn-io.ts";
import type { ApplicationStream } from "../../src/server/index.ts";
import { TurnHost } from "./turn-host.ts";

test("F2: the cache forgets what was not used for longest, and holds no more than it may", () => {
  const cache = new BlobCache(10_000);
  for (let at = 0; at < 20; at++) {
    cache.put("user", `b${at}`, new Uint8Array(1_000).fill(at));
    cache.get("user", "b0");
  }
  assert.ok(cache.get("user", "b0") !== undefined, "used again and again");
  assert.equal(cache.get("user", "b1"), undefined);
  assert.ok(cache.get("user", "b19") !== undefined);
  cache.put("user", "large", new Uint8Array(9_000));
  assert.equal(cache.get("user", "large"), undefined, "one blob does not push out all others");
});

test("E2: what one principal has is no answer for another", () => {
  const cache = new BlobCache(10_000);
  cache.put("alice", "b", Uint8Array.of(1));
  assert.equal(cache.get("mallory", "b"), undefined);
});

test("what a turn has fetched is in the cache: the next turn of the conversation does not ask for it again", async () => {
  const [host, cache, bytes] = [new TurnHost(), new BlobCache(10_000), Uint8Array.of(1, 2, 3)];
  const id = blobIdOf(bytes);
  const fetched: unknown[] = [];
  const turn = async (stream: ApplicationStream): Promise<void> => {
    const io = new TurnIo(stream, cache, () => Promise.resolve());
    await io.fetch([id]);
    fetched.push(io.facts.found.fetched.get(id));
  };
  host.blobs.set(id, bytes);
  await host.run(turn);
  host.blobs.clear();
  await host.run(turn);
  assert.deepEqual(fetched, [bytes, bytes]);
});
