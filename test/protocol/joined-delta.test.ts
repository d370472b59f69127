import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { AgentServerMessageSchema } from "../../src/protocol/gen/holdfast/v1/agent_pb.ts";
import { joinTextDeltas, kindOfDelta } from "../../src/protocol/joined-delta.ts";
import type { DeltaKind } from "../../src/protocol/joined-delta.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { execFixtures } from "./fixtures/exec-messages.ts";
import { serverFixtures } from "./fixtures/server-messages.ts";

function delta(kind: DeltaKind, text: string): Uint8Array {
  const message =
    kind === "text"
      ? ({ case: "textDelta", value: { text } } as const)
      : ({ case: "thinkingDelta", value: { text } } as const);
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: { message } } }),
  );
}

function textOf(message: Uint8Array): { kind: string; text: string } {
  const outer = fromBinary(AgentServerMessageSchema, message).message;
  const inner = outer.case === "interactionUpdate" ? outer.value.message : assert.fail("not an update");
  if (inner.case !== "textDelta" && inner.case !== "thinkingDelta") assert.fail("not a delta");
  return { kind: inner.case === "textDelta" ? "text" : "thinking", text: inner.value.text };
}

const kind = fc.constantFrom<DeltaKind>("text", "thinking");
const texts = fc.array(
  fc.oneof(
    fc.string({ unit: "grapheme" }),
    // Around the sizes where a length takes one byte more.
    fc.integer({ min: 100, max: 17_000 }).map((size) => "é".repeat(size)),
  ),
  { minLength: 1, maxLength: 6 },
);

const join = (messages: readonly Uint8Array[]): Uint8Array =>
  joinTextDeltas(messages) ?? assert.fail("these deltas should be joined");

test("B4: a joined delta has the same text as the deltas it stands for", () => {
  fc.assert(
    fc.property(kind, texts, (each, parts) => {
      const joined = join(parts.map((part) => delta(each, part)));
      assert.deepEqual(textOf(joined), { kind: each, text: parts.join("") });
      assert.deepEqual(joined, delta(each, parts.join("")), "and the bytes of one delta with that text");
    }),
  );
});

test("B4: it does not matter in which groups deltas are joined", () => {
  fc.assert(
    fc.property(kind, texts, fc.nat(), (each, parts, cut) => {
      const deltas = parts.map((part) => delta(each, part));
      const at = cut % deltas.length;
      const groups = [deltas.slice(0, at), deltas.slice(at)].filter((group) => group.length > 0);
      assert.deepEqual(join(groups.map(join)), join(deltas));
    }),
  );
});

test("nothing joins with another kind, and nothing is made of nothing", () => {
  assert.equal(joinTextDeltas([delta("text", "a"), delta("thinking", "b")]), undefined);
  assert.equal(joinTextDeltas([]), undefined);
});

test("only text and thinking deltas are deltas", () => {
  for (const { name, schema, message } of [...serverFixtures, ...execFixtures]) {
    if (schema !== AgentServerMessageSchema) continue;
    const bytes = toBinary(schema, message);
    const expected = name.startsWith("update text_delta")
      ? "text"
      : name === "update thinking_delta"
        ? "thinking"
        : undefined;
    assert.equal(kindOfDelta(bytes), expected, name);
    if (expected === undefined) assert.equal(joinTextDeltas([delta("text", "a"), bytes]), undefined, name);
  }
});

test("a delta with anything beside its text is left alone, at whatever depth it stands", () => {
  const withUnknown = (depth: 0 | 1 | 2): Uint8Array => {
    // Field 100, a varint with the value 1, put in by wrapping from the inside.
    const extra = [0xa0, 0x06, 0x01];
    const wrap = (inner: readonly number[]) => [0x0a, inner.length, ...inner];
    const text = [...wrap([0x68, 0x69]), ...(depth === 2 ? extra : [])];
    const update = [...wrap(text), ...(depth === 1 ? extra : [])];
    return Uint8Array.from([...wrap(update), ...(depth === 0 ? extra : [])]);
  };
  for (const depth of [0, 1, 2] as const) {
    const bytes = withUnknown(depth);
    assert.deepEqual(textOf(bytes), { kind: "text", text: "hi" }, "the sample is a readable delta");
    assert.equal(kindOfDelta(bytes), undefined);
  }
});

test("half a character is never completed by its neighbour", () => {
  // The first two and the last byte of the euro sign, each as the text of a delta.
  const first = Uint8Array.of(0x0a, 6, 0x0a, 4, 0x0a, 2, 0xe2, 0x82);
  const last = Uint8Array.of(0x0a, 5, 0x0a, 3, 0x0a, 1, 0xac);
  assert.equal(joinTextDeltas([first, last]), undefined);
});

test("arbitrary bytes are never taken for a delta that the decoder does not see", () => {
  const nearly = fc
    .tuple(kind, fc.string({ maxLength: 20 }), fc.nat(), fc.integer({ min: 0, max: 255 }))
    .map(([each, text, at, value]) => {
      const bytes = delta(each, text);
      bytes[at % bytes.length] = value;
      return bytes;
    });
  fc.assert(
    fc.property(fc.oneof(nearly, fc.uint8Array({ maxLength: 40 })), (bytes) => {
      const found = kindOfDelta(bytes);
      const joined = joinTextDeltas([bytes]);
      if (joined !== undefined) assert.deepEqual(textOf(joined), textOf(bytes));
      if (joined !== undefined) assert.equal(textOf(joined).kind, found);
    }),
    { numRuns: 3000 },
  );
});

test("E8: deltas are joined up to the limit of an event and not beyond", () => {
  const overhead = delta("text", "x".repeat(200_000)).byteLength - 200_000;
  const atLimit = "x".repeat(LIMITS.eventBytesMax - overhead - 1);
  assert.equal(join([delta("text", atLimit), delta("text", "y")]).byteLength, LIMITS.eventBytesMax);
  assert.equal(joinTextDeltas([delta("text", atLimit), delta("text", "yz")]), undefined);
});
