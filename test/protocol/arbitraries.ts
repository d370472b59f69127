/** Arbitrary valid frames, for the property tests. */
import * as fc from "fast-check";
import { WIRE_CODES } from "../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { LIMITS } from "../../src/protocol/limits.ts";

/** Records as the codec makes them: ordinary objects, or a deep comparison would tell them apart. */
export function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record<T>(model, { noNullPrototype: true });
}

const uint32 = fc.oneof(
  fc.constantFrom(0, 127, 128, 16_383, 16_384, 2 ** 21, 2 ** 28, 2 ** 32 - 1),
  fc.integer({ min: 0, max: 2 ** 32 - 1 }),
);
const safeInteger = fc.oneof(uint32, fc.maxSafeNat());
const body = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.integer({ min: 0, max: 70_000 }).map((size) => new Uint8Array(size).fill(size)),
);
/** Text that survives UTF-8: no half of a surrogate pair. */
const text = fc.string({ unit: "grapheme", maxLength: 40 });

const name = (min: number, max: number) =>
  fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: min,
    maxLength: max,
  });

export const idempotencyKey = name(1, LIMITS.idempotencyKeyBytesMax);

const attach = record({
  kind: fc.constant("attach" as const),
  protocolVersion: uint32,
  mode: fc.constantFrom("open" as const, "resume" as const),
  role: fc.constantFrom("writer" as const, "reader" as const),
  eventId: safeInteger,
  journalId: name(1, LIMITS.journalIdBytesMax),
  fresh: fc.constant(false),
  abort: fc.boolean(),
  firstChunk: fc.constant(undefined),
});

const freshAttach = record({
  kind: fc.constant("attach" as const),
  protocolVersion: uint32,
  mode: fc.constant("open" as const),
  role: fc.constant("writer" as const),
  eventId: fc.constant(0),
  journalId: name(1, LIMITS.journalIdBytesMax),
  fresh: fc.constant(true),
  abort: fc.boolean(),
  firstChunk: fc.option(body, { nil: undefined }),
});

export const chunkFrame = record({
  kind: fc.constant("chunk" as const),
  seqno: uint32,
  writerEpoch: uint32,
  body,
});

export const appendableFrame: fc.Arbitrary<ClientFrame> = fc.oneof(
  chunkFrame,
  record({ kind: fc.constant("close" as const), seqno: uint32, writerEpoch: uint32 }),
  record({ kind: fc.constant("abort" as const) }),
  record({
    kind: fc.constant("heartbeat" as const),
    runningExecIds: fc.array(name(1, LIMITS.execIdBytesMax), { maxLength: 5 }),
  }),
);

export const clientFrame: fc.Arbitrary<ClientFrame> = fc.oneof(attach, freshAttach, appendableFrame);

const end = fc.constantFrom(undefined, "completed" as const, "aborted" as const, "failed" as const);

export const eventFrame = safeInteger.chain((eventId) =>
  record({
    kind: fc.constant("event" as const),
    eventId: fc.constant(eventId),
    body,
    end,
  }),
);

export const serverFrame: fc.Arbitrary<ServerFrame> = fc.oneof(
  eventFrame,
  record({
    kind: fc.constant("welcome" as const),
    message: text,
    degraded: fc.boolean(),
    nextSeqno: uint32,
    eventHead: safeInteger,
    eventFloor: safeInteger,
    writerEpoch: uint32,
    writerSinceEvent: safeInteger,
    durability: fc.constantFrom("none" as const, "fsync" as const, "quorum" as const),
    retentionLeftMs: safeInteger,
    heartbeatIntervalMs: uint32,
    serverTimeMs: safeInteger,
    lastActivityMs: safeInteger,
    aborted: fc.boolean(),
    protocolVersion: uint32,
    resumed: fc.boolean(),
    closed: fc.boolean(),
  }),
  record({ kind: fc.constant("ack" as const), seqno: uint32 }),
  record({
    kind: fc.constant("heartbeat" as const),
    nextSeqno: uint32,
    eventHead: safeInteger,
    aborted: fc.boolean(),
  }),
  record({
    kind: fc.constant("error" as const),
    code: fc.constantFrom(...WIRE_CODES),
    message: text,
    retryAfterMs: fc.option(uint32, { nil: undefined }),
  }),
  record({ kind: fc.constant("durability_lost" as const), head: safeInteger }),
);
