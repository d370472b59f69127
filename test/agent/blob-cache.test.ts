/** What the server remembers of conversations, within bounds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BlobCache } from "../../src/agent/blobs.ts";

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
