import assert from "node:assert/strict";
import { test } from "node:test";
import { cleanedWords } from "../../../src/agent/models/provider-words.ts";
import { secretsOf } from "../../../src/agent/models/providers.ts";
import { durationMs, retryAfterMs } from "../../../src/agent/models/retry-after.ts";

const NOW = Date.parse("2026-05-01T12:00:00Z");

test("a pause is read from seconds, a date, milliseconds or a duration; anything else is none", () => {
  assert.equal(retryAfterMs({ "retry-after": "20" }, NOW), 20_000);
  assert.equal(retryAfterMs({ "retry-after": "0.5" }, NOW), 500);
  assert.equal(retryAfterMs({ "retry-after": "Fri, 01 May 2026 12:00:30 GMT" }, NOW), 30_000);
  assert.equal(retryAfterMs({ "retry-after": "Fri, 01 May 2026 11:00:00 GMT" }, NOW), 0);
  assert.equal(retryAfterMs({ "retry-after": "3", "retry-after-ms": "2100" }, NOW), 2_100);
  assert.equal(retryAfterMs({ "retry-after": "soon" }, NOW), undefined);
  assert.equal(retryAfterMs({ "retry-after": "-1" }, 1e15), 0);
  assert.equal(retryAfterMs(undefined, NOW), undefined);
  assert.equal(durationMs("34.5s"), 34_500);
  assert.equal(durationMs("a while"), undefined);
  assert.equal(durationMs(34), undefined);
});

test("E4: a provider's words lose secrets, line breaks and control characters, and are cut", () => {
  const prompt = [{ role: "system" as const, content: "the anchor lies under the third stone" }];
  const cleaned = (words: string): string => cleanedWords(words, ["hunter2-hunter2"], prompt);
  assert.equal(cleaned("no hunter2-hunter2\n\u001b[31m allowed"), "no *** [31m allowed");
  assert.equal(
    cleaned("Incorrect API key provided: sk-proj-abcdefghijklmnop."),
    "Incorrect API key provided: ***.",
  );
  assert.equal(cleaned('input: "the anchor lies under the third"'), "");
  assert.equal(cleaned("x".repeat(1_000)).length, 304);
  assert.equal(cleaned("x".repeat(299) + "🙂"), `${"x".repeat(299)} ...`, "not within a character");
});

test("E4: the secrets of a provider are its API key as it is sent and its headers, but for what is too short to be told from a word", () => {
  const provider = {
    dialect: "openai",
    baseURL: "http://127.0.0.1:1/v1",
    keyVariables: ["KEY"],
    headers: { "x-team": "hunter2-hunter2", "x-tier": "gold5", "x-pin": "hunter" },
  } as const;
  assert.deepEqual(secretsOf(provider, { KEY: " opaque-key\r\n" }), [
    "opaque-key",
    "hunter2-hunter2",
    "hunter",
  ]);
  assert.deepEqual(secretsOf(provider, {}), ["hunter2-hunter2", "hunter"]);
});
