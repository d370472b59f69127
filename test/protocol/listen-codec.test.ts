import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { encodeServerFrame } from "../../src/protocol/frame-codec.ts";
import {
  decodeHeard,
  decodeListen,
  encodeHeard,
  encodeListen,
  HEARD_BYTES_MAX,
} from "../../src/protocol/listen-codec.ts";
import { serverFrame } from "./arbitraries.ts";
import pinned from "./fixtures/pins.json" with { type: "json" };
import { serverFrames } from "./fixtures/stream-messages.ts";

const refused = { name: "HoldfastError", code: "invalid_frame" };

test("what a listener hears comes back as it was", () => {
  const tag = fc.constantFrom("t", "tag-1", "x".repeat(64));
  fc.assert(
    fc.property(tag, fc.array(serverFrame, { maxLength: 5 }), fc.boolean(), (tagged, frames, closed) => {
      const bytes = encodeHeard(tagged, frames.map(encodeServerFrame), closed);
      assert.deepEqual(decodeHeard(bytes), { connectionTag: tagged, frames, closed });
    }),
  );
});

test("the hand-written message has the frozen bytes", () => {
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
  const names = ["response seqno_ack", "response server_chunk"] as const;
  const frames = names.map((name) => encodeServerFrame(serverFrames[name] ?? assert.fail(name)));
  assert.equal(hex(encodeHeard("tag", frames, false)), pinned.messages["listen response"]);
  assert.equal(hex(encodeHeard("tag", [], true)), pinned.messages["listen response closed"]);
  assert.equal(hex(encodeHeard("", [], false)), "");
  assert.equal(hex(encodeListen("page")), pinned.messages["listen request"]);
  assert.equal(decodeListen(encodeListen("page")), "page");
});

test("a listener has a name", () => {
  for (const name of ["", "x".repeat(65), "two words", "ä"]) {
    assert.throws(() => encodeListen(name), refused);
  }
  assert.throws(() => decodeListen(new Uint8Array()), refused);
});

test("frames without a connection are refused", () => {
  const frame = encodeServerFrame({ kind: "ack", seqno: 0 });
  assert.throws(() => decodeHeard(encodeHeard("", [frame], false)), refused);
  assert.throws(() => decodeHeard(encodeHeard("", [], true)), refused);
});

test("E8: a message above its limit is refused before it is read", () => {
  assert.throws(() => decodeHeard(new Uint8Array(HEARD_BYTES_MAX + 1)), { code: "too_large" });
});

test("arbitrary bytes are a message or a HoldfastError, nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const decode of [decodeHeard, decodeListen]) {
        try {
          decode(bytes);
        } catch (error) {
          assert.ok(error instanceof HoldfastError, String(error));
        }
      }
    }),
    { numRuns: 1000 },
  );
});
