import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { checkJson } from "../../src/protocol/json-check.ts";

const check = (text: string): void => checkJson(Buffer.from(text));
const isRefused = (error: unknown): boolean =>
  error instanceof HoldfastError && error.code === "invalid_frame";

test("E8: JSON is nested as deep as the limit, and not one deeper", () => {
  const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  check(nested(LIMITS.jsonDepthMax));
  assert.throws(() => check(nested(LIMITS.jsonDepthMax + 1)), isRefused);
  check(`[${Array.from({ length: 100 }, () => '{"a":[]}').join(",")}]`);
});

test("E8: JSON of nothing but values is refused before it is parsed", () => {
  const values = (count: number): string => `[${"0,".repeat(count - 1)}0]`;
  check(values(65_536));
  assert.throws(() => check(values(65_537)), isRefused);
});

test("what stands in a text is no structure", () => {
  check(JSON.stringify({ body: `${"[".repeat(1000)}${",".repeat(100_000)}` }));
  check(JSON.stringify({ body: `"\\"${"[".repeat(1000)}\\` }));
  assert.throws(() => check(`{"\\\\":${"[".repeat(1000)}`), isRefused);
  check('"a text without an end');
});
