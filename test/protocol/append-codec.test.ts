import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import * as fc from "fast-check";
import {
  decodeAppend,
  decodeAppendOutcome,
  encodeAppend,
  encodeAppendOutcome,
} from "../../src/protocol/append-codec.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { ClientFrame } from "../../src/protocol/frames.ts";
import { AppendRequestSchema } from "../../src/protocol/gen/holdfast/v1/stream.ts";
import { appendableFrame, idempotencyKey, record } from "./arbitraries.ts";
import { clientFrames } from "./fixtures/stream-messages.ts";

const refused = { name: "HoldfastError", code: "invalid_frame" };

const plain = { connectionTag: "tag-1", listener: "", detach: false };
const attaches = Object.values(clientFrames).filter((frame) => frame.kind === "attach");

test("every append comes back as it was", () => {
  const append = record({
    idempotencyKey,
    frames: fc.array(appendableFrame, { maxLength: 5 }),
    connectionTag: fc.constantFrom("", "tag-1"),
    listener: fc.constant(""),
    detach: fc.boolean(),
  });
  fc.assert(fc.property(append, (each) => assert.deepEqual(decodeAppend(encodeAppend(each)), each)));
});

test("an append that joins a listener comes back as it was, its attach first", () => {
  const append = record({
    idempotencyKey,
    frames: fc
      .tuple(fc.constantFrom(...attaches), fc.array(appendableFrame, { maxLength: 3 }))
      .map(([attach, others]): ClientFrame[] => others.toSpliced(0, 0, attach)),
    connectionTag: fc.constant("tag-1"),
    listener: fc.constantFrom("page", "x".repeat(64)),
    detach: fc.boolean(),
  });
  fc.assert(fc.property(append, (each) => assert.deepEqual(decodeAppend(encodeAppend(each)), each)));
});

test("an attach cannot be appended without a listener, nor behind another frame", () => {
  const append = { ...plain, idempotencyKey: "key" };
  const heartbeat = { kind: "heartbeat", runningExecIds: [] } as const;
  for (const attach of attaches) {
    assert.throws(() => encodeAppend({ ...append, frames: [attach] }), refused);
    assert.throws(() => encodeAppend({ ...append, listener: "page", frames: [heartbeat, attach] }), refused);
    assert.throws(() => encodeAppend({ ...append, listener: "page", frames: [attach, attach] }), refused);
  }
});

test("a listener is joined by an attach and under a tag", () => {
  const joining = { ...plain, idempotencyKey: "key", listener: "page" };
  assert.throws(() => encodeAppend({ ...joining, frames: [] }), refused);
  assert.throws(() => encodeAppend({ ...joining, frames: [{ kind: "abort" }] }), refused);
  assert.throws(() => encodeAppend({ ...joining, frames: attaches.slice(0, 1), connectionTag: "" }), refused);
  const long = { ...joining, frames: attaches.slice(0, 1), listener: "x".repeat(65) };
  assert.throws(() => encodeAppend(long), refused);
});

test("D3: a frame that means another stream than its append is refused", () => {
  const message = create(AppendRequestSchema, {
    idempotencyKey: "key",
    frames: [{ request: { case: "abort", value: {} }, idempotencyKey: "later" }],
  });
  assert.throws(() => decodeAppend(toBinary(AppendRequestSchema, message)), refused);
});

test("arbitrary bytes are an append or a HoldfastError, nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const decode of [decodeAppend, decodeAppendOutcome]) {
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

test("the answer tells where the log stood, or why nothing was taken over", () => {
  assert.deepEqual(decodeAppendOutcome(encodeAppendOutcome({ nextSeqno: 0 })), { nextSeqno: 0 });
  assert.deepEqual(decodeAppendOutcome(encodeAppendOutcome({ nextSeqno: undefined })), {
    nextSeqno: undefined,
  });
  const error = new HoldfastError("overloaded", "too many", { retryAfterMs: 250 });
  const outcome = decodeAppendOutcome(encodeAppendOutcome({ error }));
  assert.ok("error" in outcome);
  assert.equal(outcome.error.code, "overloaded");
  assert.equal(outcome.error.message, "too many");
  assert.equal(outcome.error.retryAfterMs, 250);
});
