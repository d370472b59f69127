/**
 * Known answers: published vectors for the primitives, frozen ones for our construction.
 *
 * The frozen bytes were computed apart from this code as well (HKDF, AES and GHASH written out in
 * Python from the RFCs). They are the format: when one changes, everything sealed before is lost.
 */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { hkdfSync, randomBytes } from "node:crypto";
import { test } from "node:test";
import * as onNode from "../../src/sealing/node-crypto.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import type { SealedDirection, SealedLabel } from "../../src/sealing/sealer.ts";
import * as onWeb from "../../src/sealing/web-crypto.ts";
import { webSealing } from "../../src/sealing/web.ts";

function bytes(hex: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(hex, "hex"));
}

function hexOf(value: Uint8Array): string {
  return Buffer.from(value).toString("hex");
}

function counting(from: number, length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => from + i);
}

test("HKDF answers as RFC 5869, test case 1", async () => {
  const ikm = new Uint8Array(22).fill(0x0b);
  const salt = counting(0, 13);
  const info = counting(0xf0, 10);
  const expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
  assert.equal(hexOf(onNode.hkdf(ikm, salt, info, 42)), expected);
  assert.equal(hexOf(await onWeb.hkdf(await onWeb.importHkdfKey(ikm), salt, info, 42)), expected);
});

test("HKDF answers as RFC 5869, test case 3, without a salt, and as the platform for keys as they are derived here", () => {
  const expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
  const none = new Uint8Array(0);
  assert.equal(hexOf(onNode.hkdf(new Uint8Array(22).fill(0x0b), none, none, 42)), expected);
  for (let at = 0; at < 200; at++) {
    const [key, salt, info] = [randomBytes(32), randomBytes(at % 65), randomBytes(at * 5)];
    const length = 1 + ((at * 7) % 100);
    const byPlatform = new Uint8Array(hkdfSync("sha256", key, salt, info, length));
    assert.deepEqual(onNode.hkdf(key, salt, info, length), byPlatform);
  }
});

test("E3: no random byte is given out twice", () => {
  const drawn = Array.from({ length: 1_000 }, (_, at) => onNode.pooledRandomBytes(9 + (at % 8)));
  assert.equal(new Set(drawn.map((one) => hexOf(one.subarray(0, 9)))).size, drawn.length);
  assert.ok(
    drawn.every((one) => one.byteLength === one.buffer.byteLength),
    "each has memory of its own",
  );
  assert.equal(onNode.pooledRandomBytes(10_000).length, 10_000);
});

test("AES-256-GCM answers as test case 16 of the GCM specification", async () => {
  const key = bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const nonce = bytes("cafebabefacedbaddecaf888");
  const aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const plaintext = bytes(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" +
      "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
  );
  const sealed =
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" +
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662" +
    "76fc6ece0f4e1768cddf8853bb2d551b";

  const nodeKey = onNode.secretKey(key);
  const out = new Uint8Array(plaintext.length + 16);
  onNode.gcmSealInto(nodeKey, nonce, aad, plaintext, out, 0);
  assert.equal(hexOf(out), sealed);
  assert.deepEqual(onNode.gcmOpen(nodeKey, nonce, aad, bytes(sealed)), plaintext);

  const webKey = await onWeb.importGcmKey(key);
  assert.equal(hexOf(await onWeb.gcmSeal(webKey, nonce, aad, plaintext)), sealed);
  assert.deepEqual(await onWeb.gcmOpen(webKey, nonce, aad, bytes(sealed)), plaintext);
});

test("HMAC-SHA-256 answers as RFC 4231, test case 2, wherever head and body are cut", () => {
  const key = new TextEncoder().encode("Jefe");
  const head = new TextEncoder().encode("what do ya ");
  const body = new TextEncoder().encode("want for nothing?");
  const expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  assert.equal(hexOf(onNode.hmac(key, head, body)), expected);
});

test("HMAC-SHA-256 of what is short and of what is long is the platform's", () => {
  const key = counting(0, 32);
  for (const byteCount of [0, 1, 2_037, 2_038, 2_039, 100_000]) {
    const body = new Uint8Array(byteCount).fill(7);
    const expected = createHmac("sha256", key).update("head 10 by").update(body).digest("hex");
    assert.equal(hexOf(onNode.hmac(key, new TextEncoder().encode("head 10 by"), body)), expected);
  }
});

const KEY = counting(0, 32);
const INCARNATION = counting(0xa0, 16);
const PLAINTEXT = new TextEncoder().encode("nothing acknowledged is lost");

/** Version 1 and the incarnation. */
const HEADER = "01a0a1a2a3a4a5a6a7a8a9aaabacadaeaf";
const FROZEN: readonly (readonly [SealedDirection, string])[] = [
  [
    "events",
    "0000000000000000" +
      "eb804d68faf88012cf96a96e21b6534c07d4b9d3d12c8213624efccc852ef622acc6f9a7cde34bcbd7a890e8",
  ],
  [
    "events",
    "0000000000000001" +
      "9bd006bc9af26dc810f1d69c9370d2dfe0dd9e0de81e3a0c3d346285c682771fde95624c92d72ac3a31bdf1d",
  ],
  [
    "chunks",
    "0000000000000000" +
      "9476cf5215df4668e67cd49f7ec7d0ef203479f2c5adbb20ccdba347547c6f22fadc9ee6e56a3bb7e8077da3",
  ],
  [
    "journal",
    "0000000000000000" +
      "261a83573249a36bc94b86a0bb8a25c99c8be9a94c970a43b2ae33cf4929cab12ece79d1f20a430746b8fe5f",
  ],
  [
    "blob",
    "0000000000000000" +
      "ccf38bf411a3c3cc7173e645678c32e916db0f44c4ab42542412f104285b0cfcc390c5401d18b6f4a744c7fe",
  ],
];
const FROZEN_HOME_JOURNAL =
  "0000000000000000" +
  "8bada0df056c5916d6ad2c4b8d47bddd11042255805481d51bfa57ec9bf8153fc74f4f5f3de48ab77984faf2";

function frozenLabel(direction: SealedDirection): SealedLabel {
  return { stream: "stream-1", direction, first: 41, count: 2, kind: "batch" };
}

const node = nodeSealing({ randomBytes: () => INCARNATION });
const web = webSealing({ randomBytes: () => INCARNATION });

test("sealed records have the frozen bytes", async () => {
  const sealer = node.sealer(KEY);
  for (const [direction, rest] of FROZEN) {
    assert.equal(hexOf(sealer.seal(frozenLabel(direction), PLAINTEXT)), HEADER + rest);
  }
  for (const { homeSealer } of [node, web]) {
    const home = await homeSealer(KEY).seal(frozenLabel("journal"), PLAINTEXT);
    assert.equal(hexOf(home), HEADER + FROZEN_HOME_JOURNAL);
  }
});

test("records that were sealed long ago open", async () => {
  const sealer = node.sealer(KEY);
  for (const [direction, rest] of FROZEN) {
    assert.deepEqual(sealer.open(frozenLabel(direction), bytes(HEADER + rest)), PLAINTEXT);
  }
  for (const { homeSealer } of [node, web]) {
    const journal = bytes(HEADER + FROZEN_HOME_JOURNAL);
    assert.deepEqual(await homeSealer(KEY).open(frozenLabel("journal"), journal), PLAINTEXT);
  }
});

test("derived keys, key check and content MAC have the frozen bytes", async () => {
  const mac = node.contentMac(KEY);
  assert.equal(hexOf(mac(7, "chunk", PLAINTEXT)), "0347813278428d111e43a7a71620971a");
  assert.equal(hexOf(mac(7, "close", new Uint8Array(0))), "aea537c4a2e3aa20edbef7b7aa12a006");
  for (const { keyCheck, deriveStreamKey } of [node, web]) {
    assert.equal(
      hexOf(await keyCheck(KEY)),
      "52a2996a825025a16aa7853c8cc1a7aaadbab9be7deef1769a37ae04d6763270",
    );
    assert.equal(
      hexOf(await deriveStreamKey(KEY, "stream-1")),
      "f6e6dc60e5ef2bbbd4d8847d5e900cd18ecff92dc2a69f82e5735ac51c437144",
    );
  }
});
