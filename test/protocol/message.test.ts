/**
 * Our codec beside that of `@bufbuild/protobuf`, message by message: the same values, the same bytes, and the same bytes refused.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as buf from "@bufbuild/protobuf";
import * as fc from "fast-check";
import * as commit from "../../src/protocol/gen/holdfast/storage/v1/commit.ts";
import * as commitDescribed from "../../src/protocol/gen/holdfast/storage/v1/commit_pb.ts";
import * as journal from "../../src/protocol/gen/holdfast/storage/v1/journal.ts";
import * as journalDescribed from "../../src/protocol/gen/holdfast/storage/v1/journal_pb.ts";
import * as errors from "../../src/protocol/gen/holdfast/v1/errors.ts";
import * as stream from "../../src/protocol/gen/holdfast/v1/stream.ts";
import { clone, create, fromBinary, Schema, toBinary } from "../../src/protocol/message.ts";
import * as messages from "../../src/protocol/messages.ts";
import * as described from "./described.ts";

interface Pair {
  readonly schema: Schema;
  readonly desc: buf.DescMessage;
}

const descs: ReadonlyMap<string, unknown> = new Map(
  Object.entries({ ...described, ...commitDescribed, ...journalDescribed }),
);

const pairs: readonly Pair[] = Object.entries({
  ...messages,
  ...stream,
  ...errors,
  ...commit,
  ...journal,
}).flatMap(([name, schema]) => {
  const desc = descs.get(name);
  return schema instanceof Schema && isDescription(desc) ? [{ schema, desc }] : [];
});

function isDescription(value: unknown): value is buf.DescMessage {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "message";
}

const uint32 = fc.oneof(
  fc.constantFrom(0, 1, 0x7f, 0x80, 0xffff_ffff),
  fc.nat(),
  fc.integer({ min: 0, max: 0xffff_ffff }),
);
const int32 = fc.oneof(fc.constantFrom(0, -1, -(2 ** 31), 2 ** 31 - 1), fc.integer());
const int64 = fc.oneof(
  fc.constantFrom(0n, -1n, -(2n ** 63n), 2n ** 63n - 1n),
  fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
);
const uint64 = fc.oneof(
  fc.constantFrom(0n, 2n ** 32n, 2n ** 49n, 2n ** 53n, 2n ** 64n - 1n),
  fc.bigInt(0n, 2n ** 64n - 1n),
);
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ maxLength: 200 }),
  fc.constantFrom("\u{feff}begins", "\u{d800} alone", "a".repeat(127), "ä".repeat(64), "a".repeat(16_384)),
);
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.constantFrom(new Uint8Array(0), new Uint8Array(300).fill(7)),
);

function scalarOf(type: buf.ScalarType): fc.Arbitrary<unknown> {
  const { ScalarType } = buf;
  if (type === ScalarType.STRING) return text;
  if (type === ScalarType.BYTES) return bytes;
  if (type === ScalarType.BOOL) return fc.boolean();
  if (type === ScalarType.UINT32) return uint32;
  if (type === ScalarType.INT32) return int32;
  if (type === ScalarType.UINT64) return uint64;
  return type === ScalarType.INT64 ? int64 : fc.double();
}

function valueOf(field: buf.DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.message !== undefined) return initOf(field.message, depth - 1);
  return field.scalar === undefined ? int32 : scalarOf(field.scalar);
}

/** The fields of a message, as a program gives them. */
function initOf(desc: buf.DescMessage, depth: number): fc.Arbitrary<Record<string, unknown>> {
  if (depth <= 0) return fc.constant({});
  const members = desc.members.map((member): [string, fc.Arbitrary<unknown>] => {
    if (member.kind === "oneof") {
      const cases = member.fields.map((field) =>
        valueOf(field, depth).map((value) => ({ case: field.localName, value })),
      );
      return [member.localName, fc.oneof(...cases)];
    }
    const value = valueOf(member, depth);
    return [member.localName, member.fieldKind === "list" ? fc.array(value, { maxLength: 3 }) : value];
  });
  return fc.record(Object.fromEntries(members), { requiredKeys: [] });
}

function outcomeOf(read: () => unknown): unknown {
  try {
    return { value: read() };
  } catch {
    return "refused";
  }
}

test("there is a table for each message", () => {
  const all = [...descs.values()].filter(isDescription);
  assert.ok(all.length > 150);
  assert.deepEqual(
    pairs.map(({ schema }) => schema.typeName).toSorted(),
    all.map(({ typeName }) => typeName).toSorted(),
  );
});

test("a message of any fields is the same value, and the same bytes, with both", () => {
  for (const { schema, desc } of pairs) {
    const check = (init: Record<string, unknown>): void => {
      const [ours, theirs] = [create(schema, init), buf.create(desc, init)];
      assert.deepStrictEqual(ours, theirs);
      const encoded = buf.toBinary(desc, theirs);
      assert.deepEqual(Buffer.from(toBinary(schema, ours)), Buffer.from(encoded));
      assert.deepStrictEqual(fromBinary(schema, encoded), buf.fromBinary(desc, encoded));
      assert.deepStrictEqual(clone(ours), ours);
    };
    fc.assert(fc.property(initOf(desc, 4), check), { numRuns: 12 });
  }
});

/** Field 900 in each wire type; the group holds a field, and a group of another number. */
const foreign = fc
  .constantFrom("a03807", "a1380102030405060708", "a2380401020304", "a3382801ab38ac38a438", "a53801020304")
  .map((hex) => Buffer.from(hex, "hex"));

/** Bytes that are nearly a message: cut, changed, repeated, of other fields, nested too deep. */
function nearly(desc: buf.DescMessage): fc.Arbitrary<Uint8Array> {
  const honest = initOf(desc, 3).map((init) => buf.toBinary(desc, buf.create(desc, init)).slice(0, 2000));
  const changed = fc
    .tuple(honest, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }))
    .map(([whole, changes]) => {
      for (const [at, byte] of changes) if (whole.length > 0) whole[at % whole.length] = byte;
      return whole;
    });
  const cut = fc.tuple(honest, fc.nat()).map(([whole, at]) => whole.subarray(0, at % (whole.length + 1)));
  const joined = fc.tuple(changed, cut, honest).map((pieces) => new Uint8Array(Buffer.concat(pieces)));
  const newer = fc
    .tuple(honest, foreign, honest, foreign)
    .map((pieces) => new Uint8Array(Buffer.concat(pieces)));
  return fc.oneof(changed, cut, joined, newer, fc.uint8Array({ maxLength: 60 }));
}

test("bytes that are nearly a message are the same value with both, or refused by both; unknown fields survive", () => {
  let refused = 0;
  let unknown = 0;
  for (const { schema, desc } of pairs) {
    const check = (given: Uint8Array): void => {
      const theirs = outcomeOf(() => buf.fromBinary(desc, given));
      assert.deepStrictEqual(
        outcomeOf(() => fromBinary(schema, given)),
        theirs,
      );
      if (theirs === "refused") {
        refused++;
        return;
      }
      const message = fromBinary(schema, given);
      if (message.$unknown !== undefined) unknown++;
      assert.deepEqual(
        Buffer.from(toBinary(schema, message)),
        Buffer.from(buf.toBinary(desc, buf.fromBinary(desc, given))),
      );
    };
    fc.assert(fc.property(nearly(desc), check), { numRuns: 40 });
  }
  assert.ok(refused > 500 && unknown > 300, `refused ${refused}, with unknown fields ${unknown}`);
});

const group = (depth: number): Uint8Array =>
  Uint8Array.from(
    [
      ...Array.from({ length: depth }, () => 0xf3 - 8),
      ...Array.from({ length: depth }, () => 0xf4 - 8),
    ].flatMap((tag) => [tag, 0x01]),
  );

test("what is nested too deep, and varints of any length, are refused by both or by none", () => {
  const [schema, desc] = [stream.StreamRequestSchema, described.StreamRequestSchema];
  const cases = [
    ...[1, 98, 99, 100, 101].map(group),
    ...Array.from({ length: 13 }, (_, length) =>
      Uint8Array.of(0x28, ...new Uint8Array(length).fill(0xff), 0x01),
    ),
    ...Array.from({ length: 13 }, (_, length) =>
      Uint8Array.of(0x28, ...new Uint8Array(length).fill(0x80), 0x00),
    ),
    ...Array.from({ length: 13 }, (_, length) =>
      Uint8Array.of(...new Uint8Array(length).fill(0x80 | 0x28), 0x01, 0x01),
    ),
  ];
  for (const given of cases) {
    const theirs = outcomeOf(() => buf.fromBinary(desc, given));
    assert.deepStrictEqual(
      outcomeOf(() => fromBinary(schema, given)),
      theirs,
      Buffer.from(given).toString("hex"),
    );
  }
});

test("a conversation within a conversation may lie as deep with both", () => {
  const nested = (depth: number): Uint8Array => {
    let state = buf.create(described.ConversationStateSchema);
    for (let at = 0; at < depth; at++) {
      state = buf.create(described.ConversationStateSchema, { subagentStates: [{ state }] });
    }
    return buf.toBinary(described.ConversationStateSchema, state);
  };
  const { ConversationStateSchema: schema } = messages;
  assert.equal(fromBinary(schema, nested(49)).$typeName, schema.typeName);
  assert.doesNotThrow(() => buf.fromBinary(described.ConversationStateSchema, nested(49)));
  assert.throws(() => fromBinary(schema, nested(50)), /nested deeper/);
  assert.throws(() => buf.fromBinary(described.ConversationStateSchema, nested(50)));
});

test("numbers that do not fit, and values of other types, are not written", () => {
  const { ListenRequestSchema } = stream;
  assert.throws(() =>
    toBinary(ListenRequestSchema, Object.assign(create(ListenRequestSchema), { listener: 7 })),
  );
  for (const seqno of [-1, 1.5, 2 ** 32, Number.NaN]) {
    assert.throws(() => toBinary(stream.StreamRequestSchema, create(stream.StreamRequestSchema, { seqno })));
  }
  for (const serverTimeMs of [-1n, 2n ** 64n]) {
    assert.throws(() =>
      toBinary(stream.WelcomeMessageSchema, create(stream.WelcomeMessageSchema, { serverTimeMs })),
    );
  }
  const foreign: unknown = create(stream.StreamRequestSchema);
  assert.throws(() => Reflect.apply(toBinary, undefined, [stream.StreamResponseSchema, foreign]));
});
