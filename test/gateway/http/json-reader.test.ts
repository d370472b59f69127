/**
 * JSON in slices is the same JSON: what the reader gives, and what it refuses, is what `JSON.parse` does for the whole.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { JsonReader } from "../../../src/gateway/http/json-reader.ts";
import { HoldfastError } from "../../../src/protocol/errors.ts";

function read(bytes: Uint8Array, slice: number, valuesMax = 1_000_000): unknown {
  const reader = new JsonReader(bytes, valuesMax);
  while (!reader.step(slice)) continue;
  return reader.value;
}

type Result = { readonly value: unknown } | "refused";

function tried(run: () => unknown): Result {
  try {
    return { value: run() };
  } catch (cause) {
    assert.ok(cause instanceof SyntaxError || cause instanceof TypeError, String(cause));
    return "refused";
  }
}

const whole = (bytes: Uint8Array): unknown =>
  JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));

function same(bytes: Uint8Array, slice: number): void {
  const expected = tried(() => whole(bytes));
  const found = tried(() => read(bytes, slice));
  assert.deepStrictEqual(found, expected, Buffer.from(bytes).toString());
  // In the same order, too.
  if (found !== "refused") assert.equal(JSON.stringify(found), JSON.stringify(expected));
}

const SLICES = fc.constantFrom(1, 2, 3, 7, 64, 1_000_000);

test("any JSON is read as JSON.parse reads it, in slices of any size", () => {
  const texts = fc.json({ stringUnit: "binary", maxDepth: 8 });
  fc.assert(
    fc.property(texts, SLICES, (text, slice) => same(Buffer.from(text), slice)),
    { numRuns: 500 },
  );
  const spaced = fc.jsonValue({ maxDepth: 5 }).map((value) => JSON.stringify(value, undefined, " \t"));
  fc.assert(fc.property(spaced, SLICES, (text, slice) => same(Buffer.from(text), slice)));
});

test("what is damaged is refused exactly when JSON.parse refuses it", () => {
  const bytes = fc.json({ maxDepth: 5 }).map((text) => Buffer.from(text));
  const damaged = fc.tuple(bytes, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([of, at, byte]) => {
    const copy = Uint8Array.from(of);
    copy[at % copy.length] = byte;
    return copy;
  });
  fc.assert(fc.property(damaged, SLICES, same), { numRuns: 1_000 });
  const torn = fc.tuple(bytes, fc.nat()).map(([of, at]) => of.subarray(0, at % (of.length + 1)));
  fc.assert(fc.property(torn, SLICES, same), { numRuns: 500 });
  const pieces = fc.array(
    fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"a"',
      '"\\u00e9"',
      "1",
      "-0",
      "true",
      "null",
      " ",
      "nul",
      '"',
      "\\",
    ),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(pieces, SLICES, (some, slice) => same(Buffer.from(some.join("")), slice)),
    {
      numRuns: 5_000,
    },
  );
});

test("what people get wrong about JSON", () => {
  const texts = [
    '{"__proto__":{"a":1},"constructor":2,"__proto__":3}',
    '{"a":1,"b":2,"a":3,"1":4,"0":5}',
    '"\\ud83d\\ude00 \\ud83d alone"',
    '"\\uD83D"',
    '{"":{"":[]}}',
    "[1,]",
    "[,1]",
    '{"a":}',
    '{"a"}',
    '{"a":1,}',
    "{1:2}",
    "[1 2]",
    "[1][2]",
    "01",
    "1e400",
    "-",
    "+1",
    "NaN",
    "'a'",
    '"\u0001"',
    '"\t"',
    '"\\x"',
    '"\\u12"',
    '"\\',
    '"a',
    "",
    " ",
    "\u{feff}{}",
    "]",
    "[}",
    "{]",
    ":",
    '"a":1',
    "[\u00a0]",
    "truefalse",
    '[true"a"]',
    '["a"true]',
    "[1[2]]",
  ];
  for (const text of texts) for (const slice of [1, 2, 5, 100]) same(Buffer.from(text), slice);
  for (const bytes of [[0x22, 0xff, 0x22], [0x22, 0xc3, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0xc3]]) {
    for (const slice of [1, 2, 5]) same(Uint8Array.from(bytes), slice);
  }
});

test("E8: depth and count are bounded at the limit and one above", () => {
  const deep = (depth: number): Buffer => Buffer.from("[".repeat(depth) + "]".repeat(depth));
  assert.ok(Array.isArray(read(deep(64), 7)));
  assert.throws(() => read(deep(65), 7), { code: "invalid_frame", message: /deeper than 64/ });
  const wide = (values: number): Buffer => Buffer.from(`[${Array(values).fill("0").join(",")}]`);
  assert.equal(JSON.stringify(read(wide(10), 3, 10)), wide(10).toString());
  const refused = tried(() => {
    try {
      return read(wide(11), 3, 10);
    } catch (cause) {
      assert.ok(cause instanceof HoldfastError && cause.code === "invalid_frame");
      throw new SyntaxError(cause.message, { cause });
    }
  });
  assert.equal(refused, "refused");
  assert.throws(() => read(Buffer.from("1".repeat(1_025)), 100), SyntaxError);
});

test("F2: no step reads more than it was asked to, however long a text is", () => {
  const bytes = Buffer.from(JSON.stringify({ text: 'é"\\\n'.repeat(50_000) }));
  const reader = new JsonReader(bytes, 10);
  let steps = 1;
  while (!reader.step(1_000)) steps++;
  assert.ok(steps >= bytes.length / 1_010, `${steps} steps`);
  assert.deepEqual(reader.value, whole(bytes));
});
