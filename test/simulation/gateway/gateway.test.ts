/**
 * The gateway's simulation itself: a seed is a whole world, and replays.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer } from "../../../src/gateway/http/index.ts";
import type { SimMessage } from "./messages.ts";
import { type Asked, RefAnswer } from "./reference-answers.ts";
import { Reference } from "./reference.ts";
import { runGatewaySeed } from "./scenario.ts";

test("a seed of the gateway replays to the identical trace, and another seed does not", async () => {
  const [first, again, other] = [await runGatewaySeed(7), await runGatewaySeed(7), await runGatewaySeed(8)];
  assert.equal(first.traceHash, again.traceHash);
  assert.equal(first.steps, again.steps);
  assert.notEqual(first.traceHash, other.traceHash);
});

/** Seeds of longer campaigns that a check failed on, with what they met when all worlds read logs from their rows and committed at once. */
const AS_BEFORE = { logEnd: "from_rows", turns: "at_once" } as const;
const FAILED_ONCE = [
  [234, "an answer that was complete in the log sleeps, and its key is used again when it was given up"],
  [5066, "a clock jumps by hours between the last byte of a response and the news of its loss"],
  [20_636, "the same with a jump of little more than the grace period"],
  [21_798, "an answer whose stream was lost with its process stands before the one that its retry got"],
  [21_800, "the same with another model"],
  [
    23_258,
    "/events asks for the answer to results that died with their process, and no retry says them again",
  ],
  [
    25_322,
    "results die with their process, and their retry comes when the session would have expired without them",
  ],
  [27_148, "a gateway that is being stopped has said results, and would begin another turn for them"],
  [30_995, "a clock jumps while the row of an answer is on its way to the disk"],
  [32_527, "a gateway closes while it stops a turn that its client has given up"],
  [
    400_075,
    "models think for minutes about as many answers as there may be, and a client asks again and again",
  ],
  [
    410_277,
    "an answer is stopped while its step begins anew, and its reader has words of the attempt before",
  ],
  [22_048, "a slow reader does not know yet that its turn has failed"],
] as const;

test("gateway seed 1434 has no violation: a clock jumps while the row of a finished session is on its way to the disk", async () => {
  assert.ok((await runGatewaySeed(1434)).steps > 0);
});

test("gateway seed 1001034 has no violation: a session that made room comes back behind a kill, beside the one that it made room for", async () => {
  assert.ok((await runGatewaySeed(1_001_034)).steps > 0);
});

for (const [seed, met] of FAILED_ONCE)
  test(`gateway seed ${seed} has no violation: ${met}`, async () => {
    assert.ok((await runGatewaySeed(seed, undefined, AS_BEFORE)).steps > 0);
  });

const CALL = { id: "c1", name: "look", args: "{}" };
const QUESTION: SimMessage = { role: "user", text: "m1 ada asks" };
const SAID: SimMessage = { role: "assistant", text: "g1 says", calls: [CALL] };
const NOW = { wallMs: 0, steadyMs: 0 };

/** A reference with one session that waits for the result of a call. */
function parked(openStreamsMax: number): Reference {
  const reference = new Reference({
    limits: {
      graceMs: 60_000,
      sessionTtlMs: 600_000,
      idempotencyTtlMs: 600_000,
      retentionMs: 600_000,
      parkedMax: 10,
      openStreamsMax,
    },
    now: () => NOW,
    life: () => 1,
    isRefused: () => false,
    streamOf: () => ({ principal: "ada", conversationId: "conversation", life: 1 }),
  });
  reference.answered(reference.ask(askedOf(1, [QUESTION])), answerFrom(0));
  reference.sessions.get("stream")?.ended("calls", [CALL], "g1 says", NOW);
  return reference;
}

function resultOf(marker: number): Asked {
  return askedOf(marker, [QUESTION, SAID, { role: "tool", id: "c1", text: `m${marker} result 0` }]);
}

test("the reference knows that /events may tell the answer to results that died with their process", () => {
  const reference = parked(10);
  assert.equal(reference.told(answerFrom(8)), undefined, "no request asked for it");
  reference.ask(resultOf(2));
  reference.killed();
  assert.equal(reference.told(answerFrom(0))?.asked.body.marker, 1);
  assert.equal(reference.told(answerFrom(8))?.asked.body.marker, 2);
  const place = { answer: 8, eventId: 8, frames: 0 };
  assert.equal(reference.judgeEvents("ada", "stream", place)[0], "answer stream/8");
});

test("the reference knows that one of two requests with the same results may be refused before the other is answered", () => {
  const reference = parked(1);
  const alone = reference.ask(resultOf(2));
  assert.deepEqual([...alone.permitted], ["results stream"]);
  const second = reference.ask(resultOf(3));
  assert.equal(reference.refused(second, "open_streams_limit"), "refused open_streams_limit");
});

test("the reference knows that a session's time counts from when its row is written", () => {
  for (const [jumpedMs, state] of [
    [500, "parked"],
    [2_000, "gone"],
  ] as const) {
    const session = parked(10).sessions.get("stream");
    const day = { wallMs: 86_400_000, steadyMs: jumpedMs };
    session?.clockSet(day);
    assert.ok(session?.states(day).has(state), `the clock was set ${jumpedMs} ms behind the answer's end`);
    assert.equal(session?.states(day).has("parked"), state === "parked");
  }
});

test("the reference knows that a loss that is heard of behind the grace period revives no answer", () => {
  const now = { ...NOW };
  const limits = {
    graceMs: 60_000,
    sessionTtlMs: 600_000,
    idempotencyTtlMs: 0,
    retentionMs: 0,
    parkedMax: 1,
    openStreamsMax: 1,
  };
  const answer = new RefAnswer(
    askedOf(1, [QUESTION]),
    { streamId: "stream", fromEvent: 0, life: 1 },
    limits,
    now,
  );
  const deliveries = (): readonly string[] =>
    answer.possible(now.wallMs, false).map(({ delivery }) => delivery);
  const telling = answer.tell(now);
  answer.learn(telling, "whole", now);
  assert.deepEqual(deliveries(), ["flushed"]);
  now.wallMs += 3 * 60 * 60_000;
  answer.learn(telling, "lost", now);
  assert.deepEqual(deliveries(), ["none"]);
});

function askedOf(marker: number, messages: readonly SimMessage[]): Asked {
  const body = {
    model: "sim/one",
    door: "chat" as const,
    system: "",
    tools: ["look"],
    messages,
    marker,
    stream: true,
    isHuge: false,
  };
  return { principal: "ada", body, hash: `hash ${marker}`, key: undefined, retrySign: "none" };
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
