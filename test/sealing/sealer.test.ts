/**
 * What sealing promises, on both platforms: a record opens under its key and label and otherwise
 * never, and no nonce is used twice.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { KeyCache, KEYS_MAX } from "../../src/sealing/key-cache.ts";
import { equalConstantTime } from "../../src/sealing/keys.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { COUNTER_MAX, counterAfter, SEALED_OVERHEAD_BYTES } from "../../src/sealing/record.ts";
import type { SealedLabel, Sealing } from "../../src/sealing/sealer.ts";
import { webSealing } from "../../src/sealing/web.ts";

/** A browser seals under home keys alone; the logs of streams are a server's. */
const sealers: readonly (readonly [string, Sealing["homeSealer"]])[] = [
  ["node, a stream's", nodeSealing().sealer],
  ["node", nodeSealing().homeSealer],
  ["web", webSealing().homeSealer],
];

const streamKey = fc.uint8Array({ minLength: 32, maxLength: 32 });
const plaintext = fc.uint8Array({ maxLength: 300 });
const name = fc.string({ unit: "grapheme", maxLength: 40 });
const number = fc.oneof(fc.nat(300), fc.maxSafeNat());
const label: fc.Arbitrary<SealedLabel> = fc.record({
  stream: name,
  direction: fc.constantFrom("chunks", "events", "journal", "blob"),
  first: number,
  count: number,
  kind: name,
});

const KEY = new Uint8Array(32).fill(1);
const LABEL: SealedLabel = { stream: "s", direction: "events", first: 5, count: 2, kind: "batch" };

/** The part of a record that, with the direction, decides key and nonce. */
function nonceName(sealed: Uint8Array): string {
  return Buffer.from(sealed.subarray(1, 25)).toString("hex");
}

function counterOf(sealed: Uint8Array): bigint {
  return Buffer.from(sealed).readBigUInt64BE(17);
}

/** Awaits inside, so that a synchronous throw and a rejection are the same to a test. */
async function refuses(open: () => Uint8Array | Promise<Uint8Array>): Promise<void> {
  await assert.rejects(
    async () => await open(),
    (error) => error instanceof HoldfastError && error.code === "stream_failed",
  );
}

for (const [platform, sealerOf] of sealers) {
  test(`${platform}: what was sealed opens to the same bytes`, async () => {
    await fc.assert(
      fc.asyncProperty(streamKey, label, plaintext, async (key, where, secret) => {
        const sealed = await sealerOf(key).seal(where, secret);
        assert.equal(sealed.length, secret.length + SEALED_OVERHEAD_BYTES);
        assert.deepEqual(await sealerOf(key).open(where, sealed), secret);
      }),
    );
  });

  test(`${platform}: every single flipped bit is refused`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 24 }), label, async (secret, where) => {
        const sealer = sealerOf(KEY);
        const sealed = await sealer.seal(where, secret);
        for (let bit = 0; bit < sealed.length * 8; bit++) {
          const flipped = new Uint8Array(sealed);
          flipped[bit >>> 3] = (flipped[bit >>> 3] ?? 0) ^ (1 << (bit & 7));
          await refuses(() => sealer.open(where, flipped));
        }
      }),
      { numRuns: 8 },
    );
  });

  test(`${platform}: a record cut short or made longer is refused`, async () => {
    const sealer = sealerOf(KEY);
    const sealed = await sealer.seal(LABEL, new Uint8Array(20));
    for (let length = 0; length < sealed.length; length++) {
      await refuses(() => sealer.open(LABEL, sealed.subarray(0, length)));
    }
    await refuses(() => sealer.open(LABEL, new Uint8Array([...sealed, 0])));
    // Too short for a tag: not even shown to the cipher, which has limits of its own.
    const short = sealed.subarray(0, SEALED_OVERHEAD_BYTES - 1);
    await assert.rejects(
      async () => await sealer.open(LABEL, short),
      (error) => error instanceof HoldfastError && error.cause === undefined,
    );
  });

  test(`${platform}: E1: another key opens nothing`, async () => {
    await fc.assert(
      fc.asyncProperty(streamKey, streamKey, async (key, other) => {
        fc.pre(!equalConstantTime(key, other));
        const sealed = await sealerOf(key).seal(LABEL, new Uint8Array(9));
        await refuses(() => sealerOf(other).open(LABEL, sealed));
      }),
    );
  });

  test(`${platform}: a record does not open under any other label`, async () => {
    const sealer = sealerOf(KEY);
    const sealed = await sealer.seal(LABEL, new Uint8Array(9));
    const others: readonly SealedLabel[] = [
      { ...LABEL, stream: "t" },
      { ...LABEL, stream: "" },
      { ...LABEL, direction: "chunks" },
      { ...LABEL, direction: "journal" },
      { ...LABEL, direction: "blob" },
      { ...LABEL, first: 4 },
      { ...LABEL, first: 6 },
      { ...LABEL, first: 5 + 2 ** 32 },
      { ...LABEL, count: 1 },
      { ...LABEL, count: 2 + 2 ** 32 },
      { ...LABEL, kind: "end" },
      { ...LABEL, kind: "batchs", stream: "" },
      { ...LABEL, kind: "batc", stream: "hs" },
    ];
    for (const other of others) await refuses(() => sealer.open(other, sealed));
    assert.deepEqual(await sealer.open(LABEL, sealed), new Uint8Array(9));
  });

  test(`${platform}: two different labels never stand for each other`, async () => {
    await fc.assert(
      fc.asyncProperty(label, label, async (where, other) => {
        fc.pre(JSON.stringify(where) !== JSON.stringify(other));
        const sealer = sealerOf(KEY);
        const sealed = await sealer.seal(where, new Uint8Array(3));
        await refuses(() => sealer.open(other, sealed));
      }),
    );
  });

  test(`${platform}: a label that cannot be written down exactly is refused`, async () => {
    const sealer = sealerOf(KEY);
    const bad: readonly SealedLabel[] = [
      { ...LABEL, stream: "\ud800" },
      { ...LABEL, kind: "\udfff" },
      { ...LABEL, kind: "k".repeat(65_536) },
      { ...LABEL, first: -1 },
      { ...LABEL, first: 2 ** 53 },
      { ...LABEL, count: 0.5 },
      { ...LABEL, count: Number.NaN },
    ];
    for (const where of bad) await refuses(() => sealer.seal(where, new Uint8Array(1)));
  });

  test(`${platform}: E3: two processes sealing the same stream never use one key and nonce twice`, async () => {
    const used = new Set<string>();
    let sealed = 0;
    for (let process = 0; process < 200; process++) {
      const sealer = sealerOf(KEY);
      for (const direction of ["chunks", "events"] as const) {
        for (let i = 0; i < 10; i++) {
          // The same label and the same plaintext each time: a rewrite after a crash.
          const record = await sealer.seal({ ...LABEL, direction }, new Uint8Array(4));
          used.add(`${direction} ${nonceName(record)}`);
          sealed++;
        }
      }
    }
    assert.equal(used.size, sealed);
  });

  test(`${platform}: E3: seals at the same time take different nonces`, async () => {
    const sealer = sealerOf(KEY);
    const records = await Promise.all(
      Array.from({ length: 300 }, async () => await sealer.seal(LABEL, new Uint8Array(4))),
    );
    assert.equal(new Set(records.map(nonceName)).size, records.length);
  });

  test(`${platform}: E3: the counter moves by one with each seal, apart for each direction`, async () => {
    const sealer = sealerOf(KEY);
    for (let i = 0n; i < 300n; i++) {
      assert.equal(counterOf(await sealer.seal(LABEL, new Uint8Array(1))), i);
      await sealer.open(LABEL, await sealerOf(KEY).seal(LABEL, new Uint8Array(1)));
    }
    const chunk = await sealer.seal({ ...LABEL, direction: "chunks" }, new Uint8Array(1));
    assert.equal(counterOf(chunk), 0n);
  });

  test(`${platform}: E3: an event sealed again shares no ciphertext with what it replaces`, async () => {
    const before = await sealerOf(KEY).seal(LABEL, new Uint8Array(64));
    const after = await sealerOf(KEY).seal(LABEL, new Uint8Array(64));
    assert.notDeepEqual(before.subarray(25), after.subarray(25));
  });

  test(`${platform}: what the caller changes after calling changes nothing`, async () => {
    const secret = new Uint8Array(32).fill(7);
    const mine = new Uint8Array(secret);
    const sealer = sealerOf(KEY);
    // Two at once: neither may end up with the other's label.
    const sealing1 = sealer.seal(LABEL, mine);
    const sealing2 = sealer.seal({ ...LABEL, first: 99 }, mine);
    mine.fill(0);
    const record1 = await sealing1;
    const record2 = await sealing2;
    assert.deepEqual(await sealer.open(LABEL, record1), secret);
    const reader = sealerOf(KEY);
    const opening1 = reader.open(LABEL, record1);
    const opening2 = reader.open({ ...LABEL, first: 99 }, record2);
    record1.fill(0);
    record2.fill(0);
    assert.deepEqual(await opening1, secret);
    assert.deepEqual(await opening2, secret);
  });

  test(`${platform}: a log written by many incarnations is read in any order`, async () => {
    const secret = new Uint8Array(5).fill(3);
    const log: Uint8Array[] = [];
    for (let i = 0; i < 3 * KEYS_MAX; i++) log.push(await sealerOf(KEY).seal(LABEL, secret));
    const reader = sealerOf(KEY);
    for (const sealed of [...log, ...log.toReversed()]) {
      assert.deepEqual(await reader.open(LABEL, sealed), secret);
    }
    assert.equal(counterOf(await reader.seal(LABEL, secret)), 0n);
  });
}

test("Node and browsers open each other's records", async () => {
  await fc.assert(
    fc.asyncProperty(streamKey, label, plaintext, async (key, where, secret) => {
      const [node, web] = [nodeSealing().homeSealer(key), webSealing().homeSealer(key)];
      assert.deepEqual(await web.open(where, node.seal(where, secret)), secret);
      assert.deepEqual(node.open(where, await web.seal(where, secret)), secret);
    }),
    { numRuns: 50 },
  );
});

test("the random source decides the incarnation, and its buffer may be used again", () => {
  const shared = new Uint8Array(16);
  let draws = 0;
  const sealing = nodeSealing({ randomBytes: () => shared.fill(++draws) });
  const first = sealing.sealer(KEY);
  const second = sealing.sealer(KEY);
  assert.deepEqual(first.seal(LABEL, KEY).subarray(1, 17), new Uint8Array(16).fill(1));
  assert.deepEqual(second.seal(LABEL, KEY).subarray(1, 17), new Uint8Array(16).fill(2));
  assert.equal(draws, 2);
});

test("a random source that gives too little is refused", () => {
  const short = { randomBytes: () => new Uint8Array(15) };
  assert.throws(() => nodeSealing(short).sealer(KEY), HoldfastError);
  assert.throws(() => webSealing(short).homeSealer(KEY), HoldfastError);
});

test("E3: a counter that is used up ends sealing instead of starting over", () => {
  assert.equal(counterAfter(0), 1);
  assert.equal(counterAfter(COUNTER_MAX - 1), COUNTER_MAX);
  for (const counter of [COUNTER_MAX, COUNTER_MAX + 1, -1, 0.5, Number.NaN, Infinity]) {
    assert.throws(() => counterAfter(counter), HoldfastError);
  }
});

test("F2: the cache of derived keys is bounded, and asks again for what it dropped", () => {
  const asked: number[] = [];
  const cache = new KeyCache((incarnation) => {
    asked.push(incarnation[0] ?? 0);
    return incarnation[0];
  });
  const buffer = new Uint8Array(16);
  const get = (i: number) => cache.get(buffer.fill(i), "events");
  for (let i = 0; i < KEYS_MAX; i++) assert.equal(get(i), i);
  for (let i = 0; i < KEYS_MAX; i++) assert.equal(get(i), i);
  assert.equal(asked.length, KEYS_MAX);
  assert.equal(get(100), 100);
  assert.equal(get(1), 1);
  assert.equal(asked.length, KEYS_MAX + 1);
  assert.equal(get(0), 0);
  assert.equal(asked.length, KEYS_MAX + 2);
  assert.equal(cache.get(new Uint8Array(16).fill(0), "chunks"), 0);
  assert.equal(asked.length, KEYS_MAX + 3);
});
