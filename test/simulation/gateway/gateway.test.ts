/**
 * The gateway's simulation itself: a seed is a whole world, and replays.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer } from "../../../src/gateway/http/index.ts";
import type { SimMessage } from "./messages.ts";
import type { Asked } from "./reference-answers.ts";
import { Reference } from "./reference.ts";
import { runGatewaySeed } from "./scenario.ts";

test("a seed of the gateway replays to the identical trace, and another seed does not", async () => {
  const [first, again, other] = [await runGatewaySeed(7), await runGatewaySeed(7), await runGatewaySeed(8)];
  assert.equal(first.traceHash, again.traceHash);
  assert.equal(first.steps, again.steps);
  assert.notEqual(first.traceHash, other.traceHash);
});

test("the reference knows that /events may tell the answer to results that died with their process", () => {
  const call = { id: "c1", name: "look", args: "{}" };
  const question: SimMessage = { role: "user", text: "m1 ada asks" };
  const said: SimMessage = { role: "assistant", text: "g1 says", calls: [call] };
  const now = { wallMs: 0, steadyMs: 0 };
  const reference = new Reference({
    limits: {
      graceMs: 60_000,
      sessionTtlMs: 600_000,
      idempotencyTtlMs: 600_000,
      retentionMs: 600_000,
      parkedMax: 10,
      openStreamsMax: 10,
    },
    now: () => now,
    life: () => 1,
    isRefused: () => false,
    streamOf: () => ({ principal: "ada", conversationId: "conversation", life: 1 }),
  });
  const first = askedOf(1, [question]);
  reference.answered(reference.ask(first), answerFrom(0));
  reference.sessions.get("stream")?.ended("calls", [call], "g1 says", now);
  assert.equal(reference.told(answerFrom(8)), undefined, "no request asked for it");
  reference.ask(askedOf(2, [question, said, { role: "tool", id: "c1", text: "m2 result 0" }]));
  reference.killed();
  assert.equal(reference.told(answerFrom(0))?.asked, first);
  assert.equal(reference.told(answerFrom(8))?.asked.body.marker, 2);
  assert.deepEqual(
    reference.judgeEvents("ada", "stream", { answer: 8, eventId: 8, frames: 0 })[0],
    "answer stream/8",
  );
});

function askedOf(marker: number, messages: readonly SimMessage[]): Asked {
  const body = {
    model: "sim/one",
    system: "",
    tools: ["look"],
    messages,
    marker,
    stream: true,
    isHuge: false,
  };
  return { principal: "ada", body, hash: `hash ${marker}`, key: undefined, saysRetry: false };
}

function answerFrom(fromEvent: number): Answer {
  return {
    streamId: "stream",
    head: { id: "chatcmpl-1", fromEvent, model: "sim/one", createdS: 0, includeUsage: false },
    source: "resumed",
    deltas: (async function* () {})(),
    delivered: () => undefined,
  };
}
