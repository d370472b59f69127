import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  decodeClientFrame,
  decodeServerFrame,
  encodeClientFrame,
  encodeServerFrame,
} from "../../src/protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import type { AttachSchema } from "../../src/protocol/gen/holdfast/v1/stream.ts";
import {
  AttachMode,
  Durability,
  EndReason,
  Role,
  StreamRequestSchema,
  StreamResponseSchema,
} from "../../src/protocol/gen/holdfast/v1/stream.ts";
import { chunkFrame, clientFrame, eventFrame, idempotencyKey, serverFrame } from "./arbitraries.ts";
import { utf8 } from "./fixtures/fixture.ts";
import { clientFrames, serverFrames } from "./fixtures/stream-messages.ts";

const refusal = (pattern: RegExp) => (error: unknown) =>
  error instanceof HoldfastError && error.code === "invalid_frame" && pattern.test(error.message);

function decodeRequest(init: MessageInitShape<typeof StreamRequestSchema>) {
  return decodeClientFrame(toBinary(StreamRequestSchema, create(StreamRequestSchema, init)));
}

function decodeResponse(response: NonNullable<MessageInitShape<typeof StreamResponseSchema>["response"]>) {
  return decodeServerFrame(toBinary(StreamResponseSchema, create(StreamResponseSchema, { response })));
}

test("every client frame comes back as it was", () => {
  fc.assert(
    fc.property(clientFrame, idempotencyKey, (frame, key) => {
      assert.deepEqual(decodeClientFrame(encodeClientFrame(frame, key)), { frame, idempotencyKey: key });
    }),
  );
});

test("every server frame comes back as it was", () => {
  fc.assert(
    fc.property(serverFrame, (frame) => {
      assert.deepEqual(decodeServerFrame(encodeServerFrame(frame)), frame);
    }),
  );
});

test("A2: the fast encoder of chunks writes what the generated one writes", () => {
  fc.assert(
    fc.property(chunkFrame, fc.oneof(idempotencyKey, fc.constant("")), (frame, key) => {
      const { seqno, writerEpoch, body } = frame;
      const message = create(StreamRequestSchema, {
        request: { case: "clientChunk", value: body },
        idempotencyKey: key,
        seqno,
        writerEpoch,
      });
      assert.deepEqual(encodeClientFrame(frame, key), toBinary(StreamRequestSchema, message));
    }),
  );
});

test("B4: the fast encoder of events writes what the generated one writes", () => {
  const wireEnd = { completed: EndReason.COMPLETED, aborted: EndReason.ABORTED, failed: EndReason.FAILED };
  fc.assert(
    fc.property(eventFrame, (frame) => {
      const message = create(StreamResponseSchema, {
        response: {
          case: "serverChunk",
          value: {
            eventId: frame.eventId === 0 ? "" : String(frame.eventId),
            message: frame.body,
            end: frame.end === undefined ? EndReason.UNSPECIFIED : wireEnd[frame.end],
          },
        },
      });
      assert.deepEqual(encodeServerFrame(frame), toBinary(StreamResponseSchema, message));
    }),
  );
});

function assertOnlyOurErrors(decode: (bytes: Uint8Array) => unknown, bytes: Uint8Array): void {
  try {
    decode(bytes);
  } catch (error) {
    assert.ok(error instanceof HoldfastError, `not one of ours: ${String(error)}`);
    assert.ok(error.code === "invalid_frame" || error.code === "too_large");
  }
}

test("arbitrary bytes are a frame or a HoldfastError, nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      assertOnlyOurErrors(decodeClientFrame, bytes);
      assertOnlyOurErrors(decodeServerFrame, bytes);
    }),
    { numRuns: 2000 },
  );
});

test("a damaged frame is a frame or a HoldfastError, nothing else", () => {
  const originals = [
    ...Object.values(clientFrames).map((frame) => encodeClientFrame(frame, "key")),
    ...Object.values(serverFrames).map((frame) => encodeServerFrame(frame)),
  ];
  const damage = fc.tuple(
    fc.constantFrom(...originals),
    fc.nat(),
    fc.integer({ min: 0, max: 255 }),
    fc.nat(),
  );
  fc.assert(
    fc.property(damage, ([original, at, value, length]) => {
      const bytes = original.slice(0, 1 + (length % original.length));
      bytes[at % bytes.length] = value;
      assertOnlyOurErrors(decodeClientFrame, bytes);
      assertOnlyOurErrors(decodeServerFrame, bytes);
    }),
    { numRuns: 2000 },
  );
});

test("deeply nested groups end in a HoldfastError, not in an overflow of the stack", () => {
  // Field 9, start of a group, over and over.
  assertOnlyOurErrors(decodeClientFrame, new Uint8Array(1_000_000).fill(0x4b));
  assertOnlyOurErrors(decodeServerFrame, new Uint8Array(300_000).fill(0x4b));
});

test("a frame of an unknown kind is refused and the field is named", () => {
  // Field 9 of both, length-delimited, empty.
  assert.throws(() => decodeClientFrame(Uint8Array.of(0x4a, 0)), refusal(/unknown kind of frame: field 9/));
  assert.throws(() => decodeServerFrame(Uint8Array.of(0x4a, 0)), refusal(/unknown kind of frame: field 9/));
});

test("an empty frame is refused", () => {
  assert.throws(() => decodeClientFrame(new Uint8Array()), refusal(/empty/));
  assert.throws(() => decodeServerFrame(new Uint8Array()), refusal(/empty/));
});

test("A1: a chunk or close without seqno or epoch is refused, not read as number 0", () => {
  const chunk = { case: "clientChunk", value: utf8("x") } as const;
  assert.throws(() => decodeRequest({ request: chunk, writerEpoch: 1 }), refusal(/needs a seqno/));
  assert.throws(() => decodeRequest({ request: chunk, seqno: 0 }), refusal(/writer_epoch/));
  assert.throws(() => decodeRequest({ request: { case: "close", value: {} } }), refusal(/a close needs/));
});

test("D3: an abort that does not name its stream is refused", () => {
  assert.throws(
    () => decodeRequest({ request: { case: "abort", value: {} } }),
    refusal(/idempotency_key is empty/),
  );
  assert.throws(() => encodeClientFrame({ kind: "abort" }, ""), refusal(/idempotency_key is empty/));
});

test("event ids have one spelling each", () => {
  const spellings = [
    "",
    "00",
    "01",
    "+1",
    "-1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "0x1",
    "١",
    "9007199254740992",
    "9".repeat(40),
  ];
  for (const head of spellings) {
    assert.throws(
      () => decodeResponse({ case: "durabilityLost", value: { head } }),
      refusal(/canonical decimal/),
      head,
    );
  }
  assert.deepEqual(decodeResponse({ case: "durabilityLost", value: { head: "9007199254740991" } }), {
    kind: "durability_lost",
    head: Number.MAX_SAFE_INTEGER,
  });
});

test('D5: an event without an id is degraded, one with the id "0" is refused', () => {
  const degraded = decodeResponse({ case: "serverChunk", value: { message: utf8("x") } });
  assert.equal(degraded.kind === "event" && degraded.eventId, 0);
  assert.throws(() => decodeResponse({ case: "serverChunk", value: { eventId: "0" } }), refusal(/"0"/));
});

const attachInit = {
  protocolVersion: 1,
  mode: AttachMode.OPEN,
  role: Role.WRITER,
  eventId: "0",
  journalId: "j",
  fresh: true,
  firstChunk: utf8("x"),
};

function decodeAttach(change: MessageInitShape<typeof AttachSchema>) {
  const value = { ...attachInit, ...change };
  return decodeRequest({ idempotencyKey: "key", request: { case: "attach", value } });
}

test("A5: only a fresh attach brings its first chunk", () => {
  assert.equal(decodeAttach({}).frame.kind, "attach");
  assert.throws(() => decodeAttach({ fresh: false }), refusal(/first_chunk/));
});

test("D5: only a writer that opens and has seen nothing is fresh", () => {
  assert.throws(() => decodeAttach({ mode: AttachMode.RESUME }), refusal(/fresh/));
  assert.throws(() => decodeAttach({ role: Role.READER }), refusal(/fresh/));
  assert.throws(() => decodeAttach({ eventId: "1" }), refusal(/fresh/));
});

test("G7: only a reader peeks, and the attach says so", () => {
  assert.throws(() => decodeAttach({ peek: true }), refusal(/only a reader may peek/));
  const reader = { role: Role.READER, fresh: false, firstChunk: undefined, peek: true };
  const { frame } = decodeAttach(reader);
  assert.ok(frame.kind === "attach" && frame.peek === true);
});

test("D1: only a writer says which epoch it had, and the attach keeps it", () => {
  const reader = { role: Role.READER, fresh: false, firstChunk: undefined };
  assert.throws(
    () => decodeAttach({ ...reader, writerEpoch: 1 }),
    refusal(/only a writer has a writer_epoch/),
  );
  const { frame } = decodeAttach({ writerEpoch: 3 });
  assert.ok(frame.kind === "attach" && frame.writerEpoch === 3);
});

test("D2: a writer names its journal, a reader need not", () => {
  assert.throws(() => decodeAttach({ journalId: "" }), refusal(/journal_id is empty/));
  const reader = { role: Role.READER, journalId: "", fresh: false, firstChunk: undefined };
  assert.equal(decodeAttach(reader).frame.kind, "attach");
});

test("a mode, role, durability or end that we do not know is refused", () => {
  assert.throws(() => decodeAttach({ mode: AttachMode.UNSPECIFIED }), refusal(/unknown attach mode 0/));
  assert.throws(() => decodeAttach({ role: Role.UNSPECIFIED }), refusal(/unknown role 0/));
  // A server_chunk with the id "1" and the end 9.
  const strangeEnd = Uint8Array.of(0x0a, 5, 0x0a, 1, 0x31, 0x20, 9);
  assert.throws(() => decodeServerFrame(strangeEnd), refusal(/unknown end reason 9/));
  const welcome = { eventHead: "0", eventFloor: "0", writerSinceEvent: "0" };
  assert.throws(
    () => decodeResponse({ case: "welcomeMessage", value: welcome }),
    refusal(/unknown durability 0/),
  );
});

test("times beyond the safe integers are refused", () => {
  const value = {
    eventHead: "0",
    eventFloor: "0",
    writerSinceEvent: "0",
    durability: Durability.NONE,
    serverTimeMs: 2n ** 53n,
  };
  assert.throws(() => decodeResponse({ case: "welcomeMessage", value }), refusal(/server_time_ms/));
});

test("numbers that are none are never encoded", () => {
  const broken: readonly number[] = [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2 ** 32];
  for (const seqno of broken) {
    const chunk: ClientFrame = { kind: "chunk", seqno, writerEpoch: 0, body: utf8("") };
    assert.throws(() => encodeClientFrame(chunk, "key"), refusal(/seqno/), String(seqno));
    assert.throws(() => encodeServerFrame({ kind: "ack", seqno }), refusal(/seqno/), String(seqno));
  }
  for (const eventId of broken.filter((value) => value !== 2 ** 32)) {
    const event: ServerFrame = { kind: "event", eventId, body: utf8(""), end: undefined };
    assert.throws(() => encodeServerFrame(event), refusal(/event_id/), String(eventId));
  }
});

test("a message for people is cut, so that no error is too large to be told", () => {
  const told = (message: string) => {
    const frame = decodeServerFrame(
      encodeServerFrame({ kind: "error", code: "internal", message, retryAfterMs: undefined }),
    );
    return frame.kind === "error" ? frame.message : assert.fail("not an error frame");
  };
  assert.equal(told("x".repeat(1000)), "x".repeat(1000));
  assert.equal(told("x".repeat(1001)), `${"x".repeat(999)}…`);
  // Between characters.
  assert.equal(told("😀".repeat(600)), `${"😀".repeat(499)}…`);
});
