import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  ENVELOPE_HEAD_BYTES,
  endEnvelope,
  type Envelope,
  EnvelopeParser,
  envelopes,
} from "../../src/transport/connect/envelopes.ts";

function parsed(pieces: readonly Uint8Array[], bytesMax = 1_000_000): Envelope[] {
  const parser = new EnvelopeParser(bytesMax);
  const found: Envelope[] = [];
  for (const piece of pieces) {
    parser.push(piece);
    for (let next = parser.next(); next !== undefined; next = parser.next()) found.push(next);
  }
  assert.equal(parser.isBetween, true);
  return found;
}

const head = (flags: number, length: number): Uint8Array => {
  const bytes = Buffer.alloc(ENVELOPE_HEAD_BYTES);
  bytes.writeUInt8(flags);
  bytes.writeUInt32BE(length, 1);
  return bytes;
};

test("two envelopes come back whole when they are cut at every pair of byte boundaries", () => {
  const messages = [new Uint8Array([1, 2, 3, 4, 5, 6, 7]), new Uint8Array(), new Uint8Array([9])];
  const bytes = Buffer.concat([envelopes(messages), endEnvelope(new Uint8Array([123, 125]))]);
  const expected = [
    ...messages.map((message) => ({ isEnd: false, message })),
    { isEnd: true, message: new Uint8Array([123, 125]) },
  ];
  for (let first = 0; first <= bytes.length; first++) {
    for (let second = first; second <= bytes.length; second++) {
      const pieces = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
      assert.deepEqual(parsed(pieces), expected);
    }
  }
  assert.deepEqual(parsed(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
});

test("any messages come back whole from any pieces, in memory of their own", () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 40_000, size: "max" }), { maxLength: 6 });
  fc.assert(
    fc.property(messages, fc.array(fc.integer({ min: 1, max: 20_000 })), (said, sizes) => {
      const bytes = Buffer.from(envelopes(said));
      const pieces: Uint8Array[] = [];
      let at = 0;
      for (const size of [...sizes, bytes.length]) pieces.push(bytes.subarray(at, (at += size)));
      const found = parsed(pieces);
      bytes.fill(255);
      assert.deepEqual(
        found.map(({ message }) => Buffer.from(message)),
        said.map((message) => Buffer.from(message)),
      );
    }),
    { numRuns: 100 },
  );
});

test("E8: a message at the limit is taken, one byte more is refused before any of it is kept", () => {
  assert.equal(parsed([envelopes([new Uint8Array(1000)])], 1000).length, 1);
  const parser = new EnvelopeParser(1000);
  parser.push(head(0, 1001));
  assert.throws(() => parser.next(), { name: "HoldfastError", code: "too_large" });
});

test("a length that no memory could hold is refused as well", () => {
  const parser = new EnvelopeParser(0xffff);
  parser.push(head(0, 0xffff_ffff));
  assert.throws(() => parser.next(), { code: "too_large" });
});

test("compressed messages and unknown flags are refused", () => {
  for (const flags of [1, 3, 4, 128]) {
    const parser = new EnvelopeParser(100);
    parser.push(head(flags, 0));
    assert.throws(() => parser.next(), { code: "invalid_frame" });
  }
});

test("input that stops within an envelope is known to be incomplete", () => {
  const bytes = envelopes([new Uint8Array(3)]);
  for (let cut = 1; cut < bytes.length; cut++) {
    const parser = new EnvelopeParser(100);
    parser.push(bytes.subarray(0, cut));
    assert.equal(parser.next(), undefined);
    assert.equal(parser.isBetween, false);
  }
});

test("F2: a long message in tiny pieces costs time in proportion to its length", () => {
  // By counting, not by a clock: every byte is moved at most about three times while its room doubles.
  const length = 1_000_000;
  const parser = new EnvelopeParser(length);
  parser.push(head(0, length));
  assert.equal(parser.next(), undefined);
  const piece = new Uint8Array(10).fill(7);
  let message: Uint8Array | undefined;
  for (let sent = 0; sent < length; sent += piece.length) {
    parser.push(piece);
    message = parser.next()?.message;
  }
  assert.equal(message?.length, length);
  assert.ok(message.every((byte) => byte === 7));
});

test("arbitrary bytes are envelopes or a HoldfastError, nothing else", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), (pieces) => {
      const parser = new EnvelopeParser(1000);
      try {
        for (const piece of pieces) {
          parser.push(piece);
          for (let next = parser.next(); next !== undefined; next = parser.next());
        }
      } catch (error) {
        assert.ok(error instanceof HoldfastError, String(error));
      }
    }),
    { numRuns: 1000 },
  );
});
