/**
 * What providers say about their limits is kept within bounds: so many headers, so many models.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limitHeaders, RateLimits } from "../../../src/agent/models/rate-limits.ts";

const LEFT = "x-ratelimit-remaining";

async function hear(
  limits: RateLimits,
  modelId: string,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const fetch = limits.watched(modelId, () => Promise.resolve(new Response("", { headers })));
  await fetch("http://127.0.0.1/");
}

test("E8: limits of 256 models are remembered; with one more, the model heard of longest ago is forgotten", async () => {
  const limits = new RateLimits();
  for (let at = 0; at < 256; at++) await hear(limits, `model-${at}`, { [LEFT]: String(at) });
  // The oldest is heard of again, and an answer without such headers says nothing new.
  await hear(limits, "model-0", { [LEFT]: "1000" });
  await hear(limits, "model-2", { "content-type": "text/plain" });
  assert.deepEqual(limits.of("model-1"), { [LEFT]: "1" });
  await hear(limits, "one more", { [LEFT]: "7" });
  assert.deepEqual(limits.of("model-1"), {});
  assert.deepEqual(limits.of("model-0"), { [LEFT]: "1000" });
  assert.deepEqual(limits.of("model-2"), { [LEFT]: "2" });
  assert.deepEqual(limits.of("one more"), { [LEFT]: "7" });
});

test("E8: of an answer's limits 32 headers are kept, each with a name and a value of bounded length", () => {
  const many = Array.from({ length: 33 }, (_, at) => [`x-ratelimit-${at}`, "1"] as const);
  assert.deepEqual(
    Object.keys(limitHeaders(many)),
    many.slice(0, 32).map(([name]) => name),
  );
  const longest = `anthropic-ratelimit-${"a".repeat(48)}`;
  assert.deepEqual(
    limitHeaders([
      [longest, "v".repeat(128)],
      [`${longest}a`, "1"],
      [LEFT, "v".repeat(129)],
      ["x-ratelimit-reset", ""],
      ["retry-after", "1"],
    ]),
    { [longest]: "v".repeat(128) },
  );
});
