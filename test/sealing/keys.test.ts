/**
 * Derived keys, the key check value and the content MAC, on both platforms.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import {
  CONTENT_MAC_BYTES,
  equalConstantTime,
  importHomeKey,
  KEY_BYTES,
  KEY_CHECK_BYTES,
  type Sealing,
  webSealing,
} from "../../src/sealing/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";

const platforms: readonly (readonly [string, Sealing])[] = [
  ["node", nodeSealing()],
  ["web", webSealing()],
];
/** What only a server does. */
const { contentMac, sealer, equal } = nodeSealing();

const KEY = new Uint8Array(32).fill(1);
const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
const body = fc.uint8Array({ maxLength: 200 });

function hexOf(value: Uint8Array): string {
  return Buffer.from(value).toString("hex");
}

async function fails(action: () => unknown): Promise<void> {
  await assert.rejects(
    async () => await action(),
    (error) => error instanceof HoldfastError && error.code === "stream_failed",
  );
}

for (const [platform, sealing] of platforms) {
  test(`${platform}: E1: the key check tells keys apart and does not give the key`, async () => {
    await fc.assert(
      fc.asyncProperty(key, key, async (one, other) => {
        fc.pre(!equalConstantTime(one, other));
        const checkOfOne = await sealing.keyCheck(one);
        assert.equal(checkOfOne.length, KEY_CHECK_BYTES);
        assert.ok(equal(checkOfOne, await sealing.keyCheck(one)));
        assert.ok(!equal(checkOfOne, await sealing.keyCheck(other)));
        assert.ok(!equal(checkOfOne, one));
      }),
    );
  });

  test(`${platform}: E1: one flipped bit of the stream key fails the key check`, async () => {
    const right = await sealing.keyCheck(KEY);
    for (let bit = 0; bit < 256; bit++) {
      const wrong = new Uint8Array(KEY);
      wrong[bit >>> 3] = (wrong[bit >>> 3] ?? 0) ^ (1 << (bit & 7));
      assert.ok(!equal(right, await sealing.keyCheck(wrong)));
    }
  });

  test(`${platform}: every purpose has its own key`, async () => {
    const derived = [
      KEY,
      await sealing.keyCheck(KEY),
      await sealing.deriveStreamKey(KEY, "a"),
      await sealing.deriveStreamKey(KEY, "b"),
      await sealing.deriveStreamKey(KEY, "a\0"),
      await sealing.deriveConversationKey(KEY, "", "a"),
      await sealing.deriveConversationKey(KEY, "", "b"),
      await sealing.deriveConversationKey(KEY, "b", "a"),
      await sealing.deriveStreamKey(new Uint8Array(32).fill(2), "a"),
    ];
    for (const each of derived) assert.equal(each.length, KEY_BYTES);
    assert.equal(new Set(derived.map(hexOf)).size, derived.length);
  });

  test(`${platform}: what the home key sealed does not open under the same bytes as a stream key`, async () => {
    const where = { stream: "s", direction: "journal", first: 0, count: 1, kind: "k" } as const;
    const sealed = await sealing.homeSealer(KEY).seal(where, new Uint8Array(8));
    assert.deepEqual(await sealing.homeSealer(KEY).open(where, sealed), new Uint8Array(8));
    await fails(() => sealer(KEY).open(where, sealed));
  });

  test(`${platform}: a key of another length is refused everywhere`, async () => {
    for (const length of [0, 16, 31, 33, 64]) {
      const wrong = new Uint8Array(length);
      await fails(() => sealer(wrong));
      await fails(() => sealing.homeSealer(wrong));
      await fails(() => sealing.keyCheck(wrong));
      await fails(() => contentMac(wrong));
      await fails(() => sealing.deriveStreamKey(wrong, "a"));
      await fails(() => sealing.deriveConversationKey(wrong, "", "a"));
    }
  });

  test(`${platform}: E8: a name at its limit derives a key and one above does not`, async () => {
    const { idempotencyKeyBytesMax } = LIMITS;
    await sealing.deriveStreamKey(KEY, "x".repeat(idempotencyKeyBytesMax));
    await sealing.deriveConversationKey(KEY, "", "x".repeat(511));
    await fails(() => sealing.deriveStreamKey(KEY, "x".repeat(idempotencyKeyBytesMax + 1)));
    await fails(() => sealing.deriveStreamKey(KEY, "é".repeat(idempotencyKeyBytesMax / 2 + 1)));
    await fails(() => sealing.deriveConversationKey(KEY, "", "x".repeat(512)));
    await fails(() => sealing.deriveStreamKey(KEY, ""));
    await fails(() => sealing.deriveStreamKey(KEY, "\ud800"));
  });
}

test("A2: the content MAC is the same for the same chunk, in every process", () => {
  fc.assert(
    fc.property(key, fc.maxSafeNat(), body, (streamKey, seqno, content) => {
      const one = contentMac(streamKey)(seqno, "chunk", content);
      const again = contentMac(streamKey)(seqno, "chunk", content);
      assert.equal(one.length, CONTENT_MAC_BYTES);
      assert.deepEqual(one, again);
    }),
  );
});

test("A2: the content MAC binds key, seqno, kind and every byte of the body", async () => {
  const empty = new Uint8Array(0);
  const mac = contentMac(KEY);
  const other = contentMac(new Uint8Array(32).fill(2));
  const macs = [
    mac(1, "chunk", empty),
    mac(1, "close", empty),
    mac(2, "chunk", empty),
    mac(1 + 2 ** 32, "chunk", empty),
    mac(1, "chunk", new Uint8Array([0])),
    mac(1, "chunk", new Uint8Array([1])),
    mac(1, "chunk", new Uint8Array([0, 0])),
    other(1, "chunk", empty),
  ];
  assert.equal(new Set(macs.map(hexOf)).size, macs.length);
  await fails(() => mac(-1, "chunk", empty));
  await fails(() => mac(2 ** 53, "chunk", empty));
});

test("E1: constant-time equality agrees with plain equality, and unequal lengths are unequal", () => {
  const node = nodeSealing();
  fc.assert(
    fc.property(body, body, (a, b) => {
      const expected = Buffer.compare(a, b) === 0;
      assert.equal(equalConstantTime(a, b), expected);
      assert.equal(node.equal(a, b), expected);
      assert.ok(equalConstantTime(a, new Uint8Array(a)));
      assert.ok(node.equal(a, new Uint8Array(a)));
      assert.ok(!equalConstantTime(a, new Uint8Array([...a, 0])));
      assert.ok(!node.equal(new Uint8Array([...a, 0]), a));
    }),
  );
});

test("a home key that cannot be read out does all that its bytes do", async () => {
  const web = webSealing();
  const node = nodeSealing();
  const held = await importHomeKey(KEY);
  assert.equal(held.extractable, false);
  await assert.rejects(() => crypto.subtle.exportKey("raw", held));
  assert.deepEqual(await web.deriveStreamKey(held, "a"), node.deriveStreamKey(KEY, "a"));
  const where = { stream: "s", direction: "blob", first: 0, count: 1, kind: "k" } as const;
  const sealed = await web.homeSealer(held).seal(where, new Uint8Array(8));
  assert.deepEqual(node.homeSealer(KEY).open(where, sealed), new Uint8Array(8));
});

test("a home key made for something else is refused", async () => {
  const algorithm = { name: "AES-GCM", length: 256 };
  const other = await crypto.subtle.generateKey(algorithm, false, ["encrypt"]);
  assert.throws(() => webSealing().homeSealer(other), HoldfastError);
});

test("node: a secret name is the same in every process with the stream key, and no other", () => {
  const { secretName } = nodeSealing();
  const other = new Uint8Array(32).fill(2);
  const names = [secretName(KEY, "a"), secretName(KEY, "b"), secretName(other, "a")].map(hexOf);
  assert.equal(new Set(names).size, names.length);
  assert.equal(hexOf(nodeSealing().secretName(KEY, "a")), names[0]);
  assert.throws(() => secretName(KEY, ""));
});

test("both platforms hash alike, and take only the bytes of a view", async () => {
  const bytes = new Uint8Array(100).fill(7).subarray(1, 4);
  const expected = hash("sha256", "\u0007\u0007\u0007");
  assert.equal(hexOf(await webSealing().sha256(bytes)), expected);
  assert.equal(hexOf(nodeSealing().sha256(bytes)), expected);
});
