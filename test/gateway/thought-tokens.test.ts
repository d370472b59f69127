/**
 * Tokens for signed thoughts: the same for every reader, worth something to one principal, and to nobody when a bit is changed.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { toChatMessages } from "../../src/gateway/openai/index.ts";
import { ThoughtTokens } from "../../src/gateway/thought-tokens.ts";

const SECRET = new Uint8Array(32).fill(7);
const STREAM = "a".repeat(32);
const metadata = { anthropic: { signature: "sig" }, holdfast: { model: "acme/one" } };

const tokensOf = (...secrets: readonly Uint8Array[]) => new ThoughtTokens(new Map(secrets.entries()));

const signed = (text: string, attempt = 1, step = 1) => {
  return { text, metadataJson: JSON.stringify(metadata), step, attempt };
};

test("a token opens for its principal, in every process, and for no other", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string(), fc.string(), (text, alice, bob) => {
      fc.pre(alice !== bob);
      const tokens = tokensOf(SECRET);
      const token = tokens.seal(alice, STREAM, signed(text.toWellFormed()));
      const restarted = tokensOf(SECRET);
      assert.equal(
        restarted.seal(alice, STREAM, signed(text.toWellFormed())),
        token,
        "one thought has one token",
      );
      const opened = { text: text.toWellFormed(), metadata, origin: `${STREAM}/1`, attempt: 1 };
      assert.deepEqual(restarted.open(alice, token), opened);
      assert.equal(tokens.open(bob, token), undefined);
      assert.equal(tokensOf(new Uint8Array(32).fill(8)).open(alice, token), undefined);
    }),
    { numRuns: 100 },
  );
});

test("two thoughts never share a nonce, nor do two principals", () => {
  const tokens = tokensOf(SECRET);
  const nonceOf = (token: string) => Buffer.from(token, "base64").subarray(1, 13).toString("hex");
  const all = ["alice", "bob"].flatMap((who) =>
    ["a", "b"].flatMap((text) => [1, 2].map((attempt) => tokens.seal(who, STREAM, signed(text, attempt)))),
  );
  assert.equal(new Set(all.map(nonceOf)).size, all.length);
});

test("a token with any bit changed, cut short or made up is none", () => {
  const tokens = tokensOf(SECRET);
  const token = tokens.seal("alice", STREAM, signed("hm"));
  const bytes = Buffer.from(token, "base64");
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const forged = Buffer.from(bytes);
    forged[bit >> 3] = (forged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    assert.equal(tokens.open("alice", forged.toString("base64")), undefined, `bit ${bit}`);
  }
  for (let length = 0; length < bytes.length; length++)
    assert.equal(tokens.open("alice", bytes.subarray(0, length).toString("base64")), undefined);
  for (const made of ["", "!", "EqQBCkYIBxgC", "gAAAAABh"])
    assert.equal(tokens.open("alice", made), undefined);
});

test("a history has each thought where it was thought, once, of the last attempt; what does not open is left out", () => {
  const tokens = tokensOf(SECRET);
  const seal = (text: string, attempt?: number, step?: number) =>
    tokens.seal("alice", STREAM, signed(text, attempt, step));
  const thoughts = [
    { token: seal("given up", 1), at: 0 },
    { token: seal("first", 5), at: 0 },
    { token: seal("first", 5), at: 0 },
    { token: "bm9uZQ==", at: 0 },
    { token: seal("second", 9, 2), at: 6 },
  ];
  const line = { role: "assistant", text: "Well. So.", reasoning: "shown", thoughts, toolCalls: [] } as const;
  const contentFor = (principal: string) => {
    const { history } = toChatMessages([line], (token) => tokens.open(principal, token));
    const [message] = history;
    assert.ok(message?.role === "assistant");
    return message.content.map((part) => [part.type, "text" in part ? part.text : ""]);
  };
  assert.deepEqual(contentFor("alice"), [
    ["reasoning", "first"],
    ["text", "Well. "],
    ["reasoning", "second"],
    ["text", "So."],
  ]);
  assert.deepEqual(contentFor("bob"), [["text", "Well. So."]]);
});

test("behind a rotation of the home key a thought keeps its token, and a new stream's has another", () => {
  const token = tokensOf(SECRET).seal("alice", STREAM, signed("before"));
  const next = new Uint8Array(32).fill(9);
  const rotated = tokensOf(SECRET, next);
  assert.equal(rotated.seal("alice", STREAM, signed("before")), token);
  assert.equal(rotated.open("alice", token)?.text, "before");
  const later = rotated.seal("alice", `${STREAM}.h1`, signed("after"));
  assert.equal(rotated.open("alice", later)?.text, "after");
  assert.equal(tokensOf(SECRET).open("alice", later), undefined, "the old key opens nothing new");
});
