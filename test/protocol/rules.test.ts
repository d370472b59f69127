/** Our rules beside `zod/mini`, whose names they have: the same values pass, and come out the same. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import * as z from "zod/mini";
import * as rules from "../../src/protocol/rules.ts";

const double = (value: number): number => value * 2;
const isShort = (value: string): boolean => value.length < 3;

const OURS = rules.object({
  text: rules.string().check(rules.refine(isShort, {})),
  maybe: rules.optional(rules.number()),
  exact: rules.exactOptional(rules.boolean()),
  counted: rules._default(rules.number(), 7),
  inner: rules.prefault(rules.strictObject({ a: rules._default(rules.string(), "x") }), {}),
  either: rules.optional(rules.union([rules.literal(false), rules.string(), rules.array(rules.number())])),
  byName: rules.optional(rules.record(rules.string().check(rules.refine(isShort, {})), rules.number())),
  list: rules.optional(
    rules.readonly(rules.array(rules.enum(["a", "b"])).check(rules.minLength(1), rules.maxLength(2))),
  ),
  doubled: rules.optional(rules.pipe(rules.number(), rules.transform(double))),
  kind: rules.optional(
    rules.discriminatedUnion("type", [
      rules.object({ type: rules.literal("a"), a: rules.number() }),
      rules.strictObject({ type: rules.literal("b"), b: rules.optional(rules.string()) }),
    ]),
  ),
});

const THEIRS = z.object({
  text: z.string().check(z.refine(isShort)),
  maybe: z.optional(z.number()),
  exact: z.exactOptional(z.boolean()),
  counted: z._default(z.number(), 7),
  inner: z.prefault(z.strictObject({ a: z._default(z.string(), "x") }), {}),
  either: z.optional(z.union([z.literal(false), z.string(), z.array(z.number())])),
  byName: z.optional(z.record(z.string().check(z.refine(isShort)), z.number())),
  list: z.optional(z.readonly(z.array(z.enum(["a", "b"])).check(z.minLength(1), z.maxLength(2)))),
  doubled: z.optional(z.pipe(z.number(), z.transform(double))),
  kind: z.optional(
    z.discriminatedUnion("type", [
      z.object({ type: z.literal("a"), a: z.number() }),
      z.strictObject({ type: z.literal("b"), b: z.optional(z.string()) }),
    ]),
  ),
});

/** Mostly what a field is for, sometimes what is near it. */
const often = (...right: readonly unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...right) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        undefined,
        null,
        "",
        "abc",
        0,
        Number.NaN,
        Infinity,
        true,
        [],
        {},
        [1, "a"],
        () => 1,
        new Date(0),
      ),
    },
  );

const values = fc.record(
  {
    text: often("", "ab"),
    maybe: often(1, undefined),
    exact: often(true, false),
    counted: often(1, undefined),
    inner: often({}, { a: "y" }, { a: undefined }, { b: 1 }),
    either: often(false, "x", [1, 2], []),
    byName: often({}, { a: 1 }, { long: 1 }, { a: "x" }, JSON.parse('{"__proto__": 1}')),
    list: often(["a"], ["a", "b"], ["a", "b", "a"], ["c"]),
    doubled: often(2, -1),
    kind: often(
      { type: "a", a: 1, more: 2 },
      { type: "b" },
      { type: "b", b: undefined },
      { type: "b", c: 1 },
      { type: "c" },
    ),
    other: fc.constant(1),
  },
  { requiredKeys: ["text"] },
);

test("what passes zod's rules passes ours, and comes out the same; the rest passes neither", () => {
  let passed = 0;
  const check = (value: unknown): void => {
    const [ours, theirs] = [rules.safeParse(OURS, value), z.safeParse(THEIRS, value)];
    assert.equal(ours.success, theirs.success);
    assert.deepStrictEqual(ours.data, theirs.data);
    if (ours.success) passed++;
  };
  fc.assert(fc.property(values, check), { numRuns: 3000 });
  for (const value of [undefined, null, 1, "x", [], () => 1]) check(value);
  assert.ok(passed > 200 && passed < 2800, `${passed} passed`);
});
