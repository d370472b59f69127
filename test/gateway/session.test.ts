/**
 * The session's machine: every row of its transition table, and what follows from each input.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../src/protocol/message.ts";
import { answerRef } from "../../src/gateway/answer-ref.ts";
import {
  begin,
  canMakeRoom,
  canTake,
  type Effect,
  type EndReason,
  find,
  type Input,
  isCounted,
  isWaiting,
  owesResults,
  type Pause,
  rowsOf,
  type State,
  step,
} from "../../src/gateway/session.ts";
import { newSession, ringOf, type SessionRecord } from "../../src/gateway/session-record.ts";
import { FailureSchema } from "../../src/protocol/messages.ts";

const NOW = 1_000;
const ANSWER = answerRef({ streamId: "s", model: "m", fromEvent: 0, includeUsage: false }, NOW);

const RECORD: SessionRecord = newSession({
  principal: "alice",
  model: "m",
  conversationId: "c",
  answer: ANSWER,
  context: "context",
  requestHead: "0".repeat(64),
  parkedMax: undefined,
  historyBytes: 10,
  responses: [],
  checkpoint: "before",
  createdMs: 1,
});

const USAGE = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const SAID = { text: "words", reasoning: "" };
const CALL = { execId: "e", id: 7, providerToolCallId: "p", tool: "look", args: "{}", callId: "t" };
const PENDING = { toolId: "t", execId: "e", id: 7, toolCallId: "p" };

const calls: Pause = {
  kind: "calls",
  calls: [CALL],
  step: 3,
  usage: USAGE,
  said: SAID,
  eventId: 9,
  endsEvent: true,
};

function ended(given: Partial<Extract<Pause, { kind: "ended" }>> = {}): Pause {
  const whole = { reason: "completed", finish: "stop", failure: undefined } as const;
  return { kind: "ended", ...whole, usage: USAGE, said: SAID, eventId: 9, endsEvent: true, ...given };
}

const paused = (pause: Pause, checkpoint: string | undefined = "after"): Input => ({
  kind: "paused",
  pause,
  checkpoint,
  nowMs: NOW,
});

const results = (): Input => ({
  kind: "results",
  results: {
    answer: { ...ANSWER, fromEvent: 9 },
    requestHead: "next",
    responses: ["row"],
    parkedMax: 4,
    historyBytes: 20,
  },
  nowMs: NOW,
});

const end = (why: EndReason): Input => ({ kind: "end", why });
const readers = (count: number): Input => ({ kind: "readers", count });

/** The state after all of it, and the effects of the last. */
function after(state: State, ...inputs: readonly Input[]): readonly [State, readonly Effect[]] {
  let effects: readonly Effect[] = [];
  let next = state;
  for (const input of inputs) [next, effects] = step(next, input);
  return [next, effects];
}

const stateAfter = (state: State, ...inputs: readonly Input[]): State => after(state, ...inputs)[0];

const FRESH = begin(RECORD);
const GENERATING = stateAfter(FRESH, { kind: "opened", responses: ["row"] });
const PARKED = stateAfter(GENERATING, paused(calls));
const FINISHED = stateAfter(GENERATING, paused(ended()));
const ENDING = stateAfter(GENERATING, end("stopped"));
const GONE = stateAfter(GENERATING, { kind: "over" });
const [SLEEPING] = find(RECORD);
const [RESUMING_PARKED] = find(PARKED.record);
const RESUMING = stateAfter(SLEEPING, { kind: "wanted" });
const RESTING = stateAfter(PARKED, { kind: "rest" });
const ENDING_ASLEEP = stateAfter(SLEEPING, end("stopped"));

const ALL: readonly State[] = [
  FRESH,
  SLEEPING,
  RESUMING,
  RESUMING_PARKED,
  GENERATING,
  PARKED,
  RESTING,
  FINISHED,
  ENDING,
  ENDING_ASLEEP,
  GONE,
];

test("a session begins fresh, and is generating with its rows' names when its stream is open", () => {
  assert.equal(FRESH.at, "fresh");
  assert.deepEqual([GENERATING.at, GENERATING.record.responses], ["generating", ["row"]]);
  assert.deepEqual(after(FRESH, { kind: "opened", responses: [] })[1], [{ kind: "clock", clock: "grace" }]);
  assert.equal(stateAfter(FRESH, { kind: "unopened" }).at, "gone");
  assert.equal(stateAfter(GENERATING, { kind: "unopened" }), GENERATING);
});

test("G7: a start resumes what waits for tool results, and lets an answer that was cut off sleep", () => {
  assert.deepEqual(find(PARKED.record)[1], [{ kind: "clock", clock: "ttl" }, { kind: "resume" }]);
  const asleep = [{ kind: "clock", clock: "grace" }, { kind: "look" }];
  assert.deepEqual(find(RECORD), [{ at: "sleeping", record: RECORD }, asleep]);
});

test("G7: a sleeper is resumed once, when a client asks for it", () => {
  const [state, effects] = after(SLEEPING, { kind: "wanted" });
  assert.deepEqual([state.at, effects], ["resuming", [{ kind: "resume" }]]);
  assert.deepEqual(after(state, { kind: "wanted" }), [state, []]);
});

test("G7: a sleeper that ends is aborted first; its rows go when the log shows how it ended", () => {
  const [state, effects] = after(SLEEPING, { kind: "clock" });
  assert.deepEqual(effects, [
    { kind: "clock", clock: "none" },
    { kind: "count", why: "abandoned" },
    { kind: "forget_answers" },
    { kind: "abort" },
  ]);
  assert.deepEqual([state.at, rowsOf(state)], ["ending", "kept"]);
  const aborted = paused(ended({ reason: "aborted", finish: undefined }));
  const [removed, more] = after(state, aborted);
  assert.deepEqual([rowsOf(removed), more], ["removed", [{ kind: "remove", withResponses: true }]]);
  assert.deepEqual(after(removed, aborted)[1], [{ kind: "keep" }]);
});

test("a stream that cannot be resumed leaves no rows, but its answers can still be read from its log", () => {
  const [state, effects] = after(RESUMING, { kind: "lost" });
  assert.deepEqual([state.at, rowsOf(state)], ["gone", "removed"]);
  assert.deepEqual(effects, [
    { kind: "clock", clock: "none" },
    { kind: "remove", withResponses: false },
  ]);
});

test("a session that is read back is generating when its step begins anew; one that waits is parked at its pause", () => {
  assert.equal(stateAfter(RESUMING, { kind: "restarted" }).at, "generating");
  assert.equal(stateAfter(RESUMING_PARKED, { kind: "restarted" }), RESUMING_PARKED);
  const [parked, effects] = after(RESUMING_PARKED, paused(calls));
  assert.equal(parked.at, "parked");
  assert.equal(parked.record, RESUMING_PARKED.record, "it has waited since it was saved");
  assert.deepEqual(effects, [
    { kind: "clock", clock: "rest" },
    { kind: "make_room", isBack: true },
  ]);
});

test("a session that waits rests without a stream, and is resumed once, when a request asks for it", () => {
  assert.deepEqual(after(PARKED, { kind: "rest" }), [
    { at: "resting", record: PARKED.record },
    [{ kind: "clock", clock: "ttl" }, { kind: "rest" }],
  ]);
  assert.ok(canTake(RESTING, PARKED.record), "its results may come");
  const [woken, effects] = after(RESTING, { kind: "wanted" });
  assert.deepEqual([woken, effects], [RESUMING_PARKED, [{ kind: "resume" }]]);
  assert.deepEqual(after(woken, { kind: "wanted" }), [woken, []]);
  assert.equal(stateAfter(woken, paused(calls)).record, PARKED.record, "it has waited since it was saved");
});

test("a session that is read, has a request in its hand, or does not wait does not rest", () => {
  const taken = stateAfter(PARKED, { kind: "take" });
  assert.deepEqual(after(PARKED, { kind: "take" })[1], [{ kind: "clock", clock: "ttl" }]);
  for (const state of [...ALL.filter(({ at }) => at !== "parked"), taken, stateAfter(PARKED, readers(1))])
    assert.deepEqual(after(state, { kind: "rest" }), [state, []], state.at);
});

test("F1: a session that rests ends by its time, and its rows stay until that is durable", () => {
  const [ending, effects] = after(RESTING, { kind: "clock" });
  assert.deepEqual([ending.at, rowsOf(ending)], ["ending", "kept"]);
  assert.deepEqual(
    effects.map(({ kind }) => kind),
    ["clock", "count", "forget_answers", "abort"],
  );
  assert.deepEqual(after(ending, paused(calls))[1], [{ kind: "remove", withResponses: true }]);
});

test("F1: a session rests before its time is over, or not at all", () => {
  const limits = { graceMs: 60, sessionTtlMs: 1_000, restMs: 5 };
  const { record } = PARKED;
  const ring = (clock: "grace" | "ttl" | "rest", waitedMs: number) =>
    ringOf(clock, record, limits, record.updatedMs + waitedMs);
  assert.deepEqual(ring("rest", 0), { kind: "rest", delayMs: 5 });
  assert.deepEqual(ring("rest", 994), { kind: "rest", delayMs: 5 });
  assert.deepEqual(ring("rest", 995), { kind: "clock", delayMs: 5 });
  assert.deepEqual(ring("rest", 2_000), { kind: "clock", delayMs: 0 });
  assert.deepEqual(ring("ttl", 400), { kind: "clock", delayMs: 600 });
  assert.deepEqual(ring("grace", 0), { kind: "clock", delayMs: 60 });
});

test("tool calls park the session: there is room for it, and its record is saved, before they are given out", () => {
  const [state, effects] = after(GENERATING, readers(1), paused(calls));
  assert.deepEqual(effects, [{ kind: "make_room" }, { kind: "save", when: "now" }]);
  const { record } = state;
  assert.deepEqual(
    [record.state, record.pending, record.steps, record.checkpoint, record.updatedMs],
    ["parked", [PENDING], 3, "after", NOW],
  );
  assert.match(record.head, /^[0-9a-f]{64}$/);
  assert.equal(stateAfter(GENERATING, paused(calls, undefined)).record.checkpoint, "after");
});

test("a completed turn is finished and saved, and no clock runs", () => {
  const [state, effects] = after(GENERATING, paused(ended()));
  assert.deepEqual(effects, [
    { kind: "clock", clock: "none" },
    { kind: "save", when: "behind" },
  ]);
  assert.deepEqual([state.at, state.record.state, state.record.pending], ["finished", "finished", []]);
});

test("a stop that meets a session while its stream is read back ends it, with its rows", () => {
  const [state, effects] = after(RESUMING, end("stopped"));
  assert.deepEqual([state.at, rowsOf(state)], ["ending", "removed"]);
  assert.deepEqual(
    effects.map(({ kind }) => kind),
    ["clock", "count", "remove", "abort"],
  );
});

test("a stop behind the end of a turn changes nothing: what is complete can be had again", () => {
  const finished = stateAfter(GENERATING, paused(ended()));
  assert.deepEqual(after(finished, { kind: "end", why: "stopped" }), [finished, []]);
});

test("a turn that failed leaves no rows; its answer is given again only when it ended with a finish", () => {
  const failure = create(FailureSchema);
  const cases: readonly (readonly [Pause, string | undefined, boolean])[] = [
    [ended({ reason: "failed", finish: undefined, failure }), "after", true],
    [ended({ reason: "aborted", finish: undefined }), "after", true],
    [ended({ reason: "failed", finish: "length", failure }), "after", false],
  ];
  for (const [pause, checkpoint, withResponses] of cases) {
    const [state, effects] = after(GENERATING, readers(1), paused(pause, checkpoint));
    assert.deepEqual(effects, [{ kind: "remove", withResponses }]);
    assert.deepEqual([state.at, rowsOf(state)], ["ending", "removed"]);
  }
});

test("a turn that left no checkpoint cannot be continued, and its answer can be had again", () => {
  const input: Input = { kind: "paused", pause: ended(), checkpoint: undefined, nowMs: NOW };
  const [state, effects] = after(GENERATING, readers(1), input);
  assert.deepEqual([state.at, effects], ["ending", [{ kind: "remove", withResponses: false }]]);
});

test("one request at a time is in the hand of a parked session", () => {
  const seen = PARKED.record;
  assert.ok(canTake(PARKED, seen) && canTake(RESUMING_PARKED, seen));
  const taken = stateAfter(PARKED, { kind: "take" });
  assert.ok(!canTake(taken, seen) && !canMakeRoom(taken) && isWaiting(taken));
  assert.ok(canTake(stateAfter(taken, { kind: "release" }), seen));
  assert.ok(!canTake(PARKED, { ...seen, head: "other" }));
  assert.ok(!canTake(PARKED, { ...seen, answer: { ...ANSWER, fromEvent: 1 } }));
  assert.equal(stateAfter(GENERATING, { kind: "take" }), GENERATING);
  assert.equal(stateAfter(GENERATING, { kind: "release" }), GENERATING);
  const again = stateAfter(taken, paused(calls));
  assert.ok(!canTake(again, again.record), "a pause that follows takes no request out of its hand");
  assert.equal(stateAfter(PARKED, paused(ended())).at, "finished", "a turn that goes on without it is heard");
});

test("A8: what a request with results says goes in behind the record", () => {
  const [state, effects] = after(PARKED, { kind: "take" }, results());
  assert.deepEqual(effects, [{ kind: "clock", clock: "grace" }, { kind: "continue" }]);
  const { record } = state;
  assert.deepEqual(
    [record.state, record.answer.fromEvent, record.requestHead, record.head, record.pending, record.answered],
    ["generating", 9, "next", "", [], [PENDING]],
  );
  assert.deepEqual([record.responses, record.parkedMax, record.historyBytes], [["row"], 4, 20]);
  assert.deepEqual(after(GENERATING, results()), [GENERATING, []]);
});

test("A8: what another process took is said again once", () => {
  const answering = { ...RECORD, answered: [PENDING] };
  const resumed = stateAfter(find(answering)[0], { kind: "wanted" });
  assert.ok(owesResults(resumed));
  const repeated = stateAfter(resumed, { kind: "repeated" });
  assert.ok(!owesResults(repeated) && !owesResults(stateAfter(repeated, { kind: "restarted" })));
  assert.ok(owesResults(stateAfter(resumed, { kind: "restarted" })));
  assert.equal(stateAfter(GENERATING, { kind: "repeated" }), GENERATING);
  assert.ok(!owesResults(PARKED) && !owesResults(GENERATING));
});

test("an answer without a reader ends after the grace period, a session without its client after its time", () => {
  assert.deepEqual(after(GENERATING, readers(1))[1], [{ kind: "clock", clock: "none" }]);
  assert.deepEqual(after(GENERATING, readers(1), readers(2))[1], []);
  assert.deepEqual(after(GENERATING, readers(1), readers(0))[1], [{ kind: "clock", clock: "grace" }]);
  assert.deepEqual(after(PARKED, readers(1), readers(0))[1], [{ kind: "clock", clock: "rest" }]);
  for (const [state, why] of [
    [GENERATING, "abandoned"],
    [RESUMING, "abandoned"],
    [PARKED, "expired"],
    [RESUMING_PARKED, "expired"],
  ] as const) {
    assert.deepEqual(after(state, { kind: "clock" })[1], [
      { kind: "clock", clock: "none" },
      { kind: "count", why },
      { kind: "remove", withResponses: true },
      { kind: "abort" },
    ]);
  }
  for (const state of [FRESH, FINISHED, ENDING, GONE, stateAfter(GENERATING, readers(1))])
    assert.deepEqual(after(state, { kind: "clock" }), [state, []]);
  for (const state of [FRESH, SLEEPING, RESTING, GONE]) assert.equal(stateAfter(state, readers(1)), state);
});

test("a session that is refused by the server says so to its readers", () => {
  const kinds = after(GENERATING, end("no_room"))[1].map(({ kind }) => kind);
  assert.deepEqual(kinds, ["clock", "count", "refuse_readers", "remove", "abort"]);
});

test("an ending session ends once; a stop is repeated so that its caller waits for the disk", () => {
  assert.deepEqual(after(ENDING, end("evicted")), [ENDING, []]);
  assert.deepEqual(after(ENDING, end("stopped")), [ENDING, [{ kind: "abort" }]]);
  for (const state of [FRESH, GONE]) assert.deepEqual(after(state, end("stopped")), [state, []]);
  for (const state of [ENDING, FINISHED, GONE, FRESH])
    assert.deepEqual(after(state, paused(calls))[1], [{ kind: "keep" }], state.at);
});

test("the end of the stream is the end of the session here", () => {
  for (const state of [RESUMING, GENERATING, PARKED, FINISHED, ENDING]) {
    const [gone, effects] = after(state, { kind: "over" });
    assert.equal(gone.at, "gone");
    assert.ok(effects.every(({ kind }) => kind === "clock"));
    assert.equal(rowsOf(gone), rowsOf(state));
  }
});

test("a gateway that closes lets go of streams, and ends nothing", () => {
  for (const state of [RESUMING, GENERATING, PARKED, FINISHED, ENDING])
    assert.deepEqual(after(state, { kind: "leave" }), [state, [{ kind: "leave" }]]);
  for (const state of [FRESH, GONE]) assert.deepEqual(after(state, { kind: "leave" }), [state, []]);
  for (const state of [SLEEPING, RESTING]) {
    const [left, effects] = after(state, { kind: "leave" });
    assert.deepEqual([left.at, rowsOf(left), effects], ["gone", "kept", [{ kind: "clock", clock: "none" }]]);
  }
});

test("E8: what is being opened, sleeps, runs or waits counts as open; what no client reads makes room", () => {
  assert.deepEqual(
    ALL.filter((state) => isCounted(state)),
    ALL.filter(({ at }) => at !== "ending" && at !== "gone"),
  );
  assert.deepEqual(
    ALL.filter((state) => canMakeRoom(state)),
    [SLEEPING, RESUMING_PARKED, PARKED, RESTING],
  );
  assert.deepEqual(
    ALL.filter((state) => isWaiting(state)),
    [RESUMING_PARKED, PARKED, RESTING],
  );
});

test("a sleeping answer that no client wants, and that was complete after all, is found by its key still; one that was stopped is not", () => {
  const whole = paused(ended());
  const removed = (withResponses: boolean): readonly Effect[] => [{ kind: "remove", withResponses }];
  assert.deepEqual(after(stateAfter(SLEEPING, end("abandoned")), whole)[1], removed(false));
  assert.deepEqual(after(stateAfter(SLEEPING, end("stopped")), whole)[1], removed(true));
  const cutOff = paused(ended({ reason: "aborted", finish: undefined }));
  assert.deepEqual(after(stateAfter(SLEEPING, end("abandoned")), cutOff)[1], removed(true));
});
