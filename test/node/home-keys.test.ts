/** The home keys of a gateway: found at a start, rotated by variables, and what each of them still opens. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { gatewayHomeKeys, gatewaySecrets, rotateGatewayKey } from "../../src/node/home-keys.ts";
import { keyNumberOf, numberedName } from "../../src/protocol/key-number.ts";
import { ringSealing, type SealedLabel } from "../../src/sealing/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { temporaryDirectory } from "../client-node/temporary.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const sealing = nodeSealing();
const keyOf = (byte: number): Buffer => Buffer.alloc(32, byte);
const LABEL: SealedLabel = { stream: "row", direction: "journal", first: 0, count: 1, kind: "gateway" };
const TEXT = Buffer.from("what a row holds");

function stage(t: TestContext) {
  const tables = memoryTableStore({ now: Date.now });
  const dataDir = temporaryDirectory(t);
  return (homeKey: Buffer, next?: Buffer) => {
    const env = {
      HOLDFAST_HOME_KEY: homeKey.toString("base64url"),
      ...(next && { HOLDFAST_NEW_HOME_KEY: next.toString("base64url") }),
    };
    const machine = { env, home: dataDir, platform: process.platform, now: Date.now };
    return { tables, isShared: false, dataDir, machine, onNotice: () => undefined };
  };
}

test("a name says under which home key it began, and names of the first one are as they always were", () => {
  for (const number of [0, 1, 9, 10, 999_999])
    assert.equal(keyNumberOf(numberedName("aBc-_9", number)), number);
  assert.equal(numberedName("aBc-_9", 0), "aBc-_9");
  for (const name of ["a.h0", "a.h01", "a.h", "a.h1x", "a.h1234567", "ah1"])
    assert.equal(keyNumberOf(name), 0);
});

test("a key in a variable is rotated by a second variable; a repeated call finds it done, and the old key is refused", async (t) => {
  const parts = stage(t);
  await gatewayHomeKeys(parts(keyOf(1)));
  await assert.rejects(rotateGatewayKey(parts(keyOf(1)), 9), /HOLDFAST_NEW_HOME_KEY.*Make one with/);
  await assert.rejects(rotateGatewayKey(parts(keyOf(1), keyOf(1)), 9), /is the home key already/);
  const { keys } = await rotateGatewayKey(parts(keyOf(1), keyOf(2)), 9);
  const again = await rotateGatewayKey(parts(keyOf(1), keyOf(2)), 9);
  assert.deepEqual([again.keys.keyNumber, again.file], [1, undefined], "nothing is rotated twice");
  assert.deepEqual(await gatewayHomeKeys(parts(keyOf(2))), keys);
  await assert.rejects(gatewayHomeKeys(parts(keyOf(1))), /this is not the home key/);
  await assert.rejects(rotateGatewayKey(parts(keyOf(1), keyOf(3)), 9), /this is not the home key/);
});

test("E1: rows, streams and conversations open under the key that they began with, and a dropped one opens nothing", async (t) => {
  const parts = stage(t);
  const first = await gatewayHomeKeys(parts(keyOf(1)));
  const row = gatewaySecrets(first).sealer.seal(LABEL, TEXT);
  const second = (await rotateGatewayKey(parts(keyOf(1), keyOf(2)), 9)).keys;
  const secrets = gatewaySecrets(second);
  assert.deepEqual(Buffer.from(secrets.sealer.open(LABEL, row)), TEXT);
  assert.deepEqual(secrets.secret, gatewaySecrets(first).secret, "rows are found again");
  const later = secrets.sealer.seal(LABEL, TEXT);
  assert.throws(() => gatewaySecrets(first).sealer.open(LABEL, later), { code: "stream_failed" });
  const ring = ringSealing(sealing, second);
  for (const [name, key] of [
    ["s", keyOf(1)],
    ["s.h1", keyOf(2)],
  ] as const) {
    assert.deepEqual(ring.deriveStreamKey(keyOf(2), name), sealing.deriveStreamKey(key, name));
    assert.deepEqual(
      ring.deriveConversationKey(keyOf(2), "alice", name),
      sealing.deriveConversationKey(key, "alice", name),
    );
  }
  const third = (await rotateGatewayKey(parts(keyOf(2), keyOf(3)), 1)).keys;
  assert.deepEqual([...third.older.keys()], [1]);
  assert.deepEqual(Buffer.from(gatewaySecrets(third).sealer.open(LABEL, later)), TEXT);
  assert.throws(() => gatewaySecrets(third).sealer.open(LABEL, row), { code: "stream_failed" });
  assert.notDeepEqual(
    ringSealing(sealing, third).deriveStreamKey(keyOf(3), "s"),
    sealing.deriveStreamKey(keyOf(1), "s"),
  );
});
