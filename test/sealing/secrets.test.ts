/**
 * Canaries: keys and plaintext that can be recognised in any dress are planted, and everything that
 * could reach a log is searched for them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { importHomeKey, type SealedLabel, type Sealing } from "../../src/sealing/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { webSealing } from "../../src/sealing/web.ts";

const CANARY_KEY = "canary-stream-key-0123456789abcd";
const CANARY_TEXT = "canary plaintext: the launch code is 7355608";
const KEY = new TextEncoder().encode(CANARY_KEY);
const TEXT = new TextEncoder().encode(CANARY_TEXT);
const LABEL: SealedLabel = { stream: "s", direction: "events", first: 1, count: 1, kind: "k" };

/** A secret as text, and as the ways in which bytes are commonly printed. */
function dresses(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  const spaced = bytes.toString("hex").replace(/(..)(?!$)/g, "$1 ");
  return [
    secret,
    bytes.toString("hex"),
    spaced,
    // Inner parts only: padding and the bytes around would change the rest.
    bytes.toString("base64").slice(0, 24),
    bytes.toString("base64url").slice(0, 24),
    [...bytes.subarray(0, 12)].join(","),
    [...bytes.subarray(0, 12)].join(", "),
  ];
}

const FORBIDDEN = [...dresses(CANARY_KEY), ...dresses(CANARY_TEXT)].map((s) => s.toLowerCase());

function printed(value: unknown): string {
  const shown = [
    String(value),
    inspect(value, { depth: Infinity, showHidden: true, maxArrayLength: Infinity }),
    JSON.stringify(value),
  ];
  if (value instanceof Error) {
    shown.push(value.message, value.stack ?? "", printed(value.cause ?? "no cause"));
    shown.push(JSON.stringify(value, Object.getOwnPropertyNames(value)));
  }
  return shown.join("\n");
}

function assertNoSecret(value: unknown): void {
  const text = printed(value).toLowerCase().replaceAll(/\s+/g, " ");
  for (const secret of FORBIDDEN) assert.ok(!text.includes(secret), `found in: ${text}`);
}

async function errorOf(action: () => unknown): Promise<unknown> {
  try {
    await action();
  } catch (error) {
    return error;
  }
  return assert.fail("expected an error");
}

test("the search itself finds a secret in every dress", () => {
  for (const value of [
    { key: KEY },
    [Buffer.from(TEXT)],
    { a: { b: Buffer.from(KEY).toString("base64url") } },
    new Error(`wrong key ${Buffer.from(KEY).toString("hex")}`),
    new Error("outer", { cause: new Error(CANARY_TEXT) }),
  ]) {
    assert.throws(() => assertNoSecret(value), assert.AssertionError);
  }
});

for (const [platform, sealing] of [
  ["node", nodeSealing()],
  ["web", webSealing()],
] satisfies readonly (readonly [string, Sealing])[]) {
  test(`${platform}: E4: an error of sealing shows no key and no plaintext`, async () => {
    const sealer = sealing.homeSealer(KEY);
    const sealed = await sealer.seal(LABEL, TEXT);
    const flipped = new Uint8Array(sealed);
    flipped[flipped.length - 1] = (flipped[flipped.length - 1] ?? 0) ^ 1;
    const other = sealing.homeSealer(new Uint8Array(32));
    const tooLong = new Uint8Array([...KEY, 0]);
    const actions: readonly (() => unknown)[] = [
      () => sealer.open(LABEL, flipped),
      () => sealer.open(LABEL, sealed.subarray(0, 30)),
      () => sealer.open(LABEL, TEXT),
      () => sealer.open({ ...LABEL, first: 2 }, sealed),
      () => other.open(LABEL, sealed),
      () => sealer.seal({ ...LABEL, first: -1 }, TEXT),
      () => sealer.seal({ ...LABEL, kind: `${CANARY_TEXT}\ud800` }, TEXT),
      () => sealing.homeSealer(tooLong),
      () => sealing.keyCheck(tooLong),
      () => sealing.deriveStreamKey(KEY, CANARY_TEXT.repeat(10)),
    ];
    for (const action of actions) assertNoSecret(await errorOf(action));
  });

  test(`${platform}: E4: a printed sealer shows no key and no plaintext`, async () => {
    const sealer = sealing.homeSealer(KEY);
    await sealer.open(LABEL, await sealer.seal(LABEL, TEXT));
    for (const value of [sealing, sealer, { sealer }]) assertNoSecret(value);
  });

  test(`${platform}: E4: nothing that is stored contains the key or the plaintext`, async () => {
    for (const stored of [await sealing.homeSealer(KEY).seal(LABEL, TEXT), await sealing.keyCheck(KEY)]) {
      assertNoSecret(stored);
      assertNoSecret(Buffer.from(stored).toString("latin1"));
    }
  });
}

test("E4: what only a server does shows no key and no plaintext either", async () => {
  const { sealer, contentMac } = nodeSealing();
  const [logs, mac] = [sealer(KEY), contentMac(KEY)];
  assertNoSecret(await errorOf(() => sealer(new Uint8Array([...KEY, 0]))));
  assertNoSecret(await errorOf(() => mac(-1, "chunk", TEXT)));
  for (const stored of [logs.seal(LABEL, TEXT), mac(0, "chunk", TEXT)]) {
    assertNoSecret(stored);
    assertNoSecret(Buffer.from(stored).toString("latin1"));
  }
  for (const value of [logs, mac, { logs, mac }]) assertNoSecret(value);
});

test("E4: a printed home key of a browser shows no key", async () => {
  assertNoSecret(await importHomeKey(KEY));
});
