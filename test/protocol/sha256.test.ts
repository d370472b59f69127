/** The hash of ours beside Node's. */
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import { bytesOfHex, hexOf } from "../../src/protocol/bytes.ts";
import { hmacSha256, sha256 } from "../../src/protocol/sha256.ts";

const expected = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

test("bytes of every length around a block have the hash that Node gives them", () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, at) => (at * 7) % 256);
  for (let length = 0; length <= bytes.length; length++) {
    assert.equal(
      hexOf(sha256(bytes.subarray(length / 2, length))),
      expected(bytes.subarray(length / 2, length)),
    );
  }
  const large = new Uint8Array(1_000_003).fill(0xa5);
  assert.equal(hexOf(sha256(large)), expected(large));
});

test("any bytes, in pieces, have the hash of the whole; a MAC of them under any key is Node's", () => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  fc.assert(
    fc.property(bytes, bytes, (first, second) => {
      const whole = Buffer.concat([first, second]);
      assert.equal(hexOf(sha256(first, second)), expected(whole));
      assert.equal(
        hexOf(hmacSha256(first, second)),
        createHmac("sha256", first).update(second).digest("hex"),
      );
      assert.deepEqual(Buffer.from(bytesOfHex(hexOf(whole))), whole);
    }),
  );
});
