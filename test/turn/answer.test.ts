/**
 * From a turn's events to an answer's deltas: pauses, ends, restarts, answers that were never streamed.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerLine, endError, initAnswer, neededBlob, project } from "../../src/gateway/openai/index.ts";
import { encodeChatMessage } from "../../src/protocol/chat-message.ts";
import { BlobKind, FailureKind, FinishReason, TurnEndReason } from "../../src/protocol/messages.ts";
import { inBlob } from "../../src/turn/content.ts";
import { serverMessage } from "../../src/turn/messages.ts";
import {
  assistantSaid,
  called,
  callOver,
  completed,
  eventsOf,
  exec,
  kindsOf,
  live,
  readExec,
  setBlob,
  started,
  text,
  thinking,
  turnEnded,
  wordsOf,
  update,
} from "./turn-script.ts";

const { STOP, LENGTH, TOOL_CALLS, CONTENT_FILTER, ERROR } = FinishReason;

function endOf(deltas: ReturnType<typeof live>) {
  const last = deltas.at(-1);
  assert.ok(last?.kind === "ended");
  return last;
}

test("a plain answer: reasoning, text, end, each with its event", () => {
  const deltas = live(
    eventsOf([started(0), thinking("hm"), text("Hel"), text("lo"), completed(0, STOP), turnEnded()]),
  );
  const used = {
    inputTokens: 10,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
  };
  assert.deepEqual(deltas, [
    { kind: "reasoning", text: "hm", eventId: 2, endsEvent: true },
    { kind: "text", text: "Hel", eventId: 3, endsEvent: true },
    { kind: "text", text: "lo", eventId: 4, endsEvent: true },
    {
      kind: "ended",
      reason: "completed",
      finish: "stop",
      failure: undefined,
      usage: used,
      said: { text: "Hello", reasoning: "hm" },
      eventId: 6,
      endsEvent: true,
    },
  ]);
});

test("a signed thought is told behind its text, with the step that it belongs to; an unsigned one is not", () => {
  const over = (json: string) =>
    update({ case: "thinkingCompleted", value: { providerMetadataJson: new TextEncoder().encode(json) } });
  const signed = '{"anthropic":{"signature":"s"}}';
  const deltas = live(eventsOf([started(0), thinking("hm"), over(signed), thinking("so"), over("")]));
  assert.deepEqual(kindsOf(deltas), ["reasoning", "thought", "reasoning"]);
  const [, thought] = deltas;
  assert.ok(thought?.kind === "thought");
  assert.deepEqual(thought.thought, { text: "hm", metadataJson: signed, step: 0, attempt: 1 });
});

test("G3: a call that was written before its step was continued is none of the answer's", () => {
  const value = { step: 0, rollbackToEventId: "2", continuation: 1, requestsBefore: 1 };
  const deltas = live(
    eventsOf([
      started(0),
      text("see "),
      called("p1", ["0.0.0"]),
      update({ case: "stepContinued", value }),
      text("this"),
      called("p2", ["0.1.0"]),
      completed(0, TOOL_CALLS),
      exec(1, "0.1.0", "p2"),
    ]),
  );
  assert.equal(wordsOf(deltas), "see this");
  const calls = deltas.flatMap((delta) => (delta.kind === "calls" ? delta.calls : []));
  assert.deepEqual(
    calls.map(({ execId }) => execId),
    ["0.1.0"],
  );
});

test("a delta names the fallback that said it, until another step begins", () => {
  const fallback = update({ case: "stepFallback", value: { step: 0, model: "other" } });
  const deltas = live(
    eventsOf([
      started(0),
      fallback,
      text("a"),
      completed(0, STOP),
      started(1),
      text("b"),
      completed(1, STOP),
    ]),
  );
  const said = deltas.filter(({ kind }) => kind === "text");
  assert.deepEqual(
    said.map(({ model }) => model),
    ["other", undefined],
  );
});

const twoCalls = [
  started(0),
  text("see"),
  called("p1", ["0.0.0"]),
  called("p2", ["0.0.1"]),
  completed(0, TOOL_CALLS),
  exec(1, "0.0.0", "p1", '{"a":1}'),
  exec(2, "0.0.1", "p2"),
];

test("the answer pauses when all execs of the step were asked for, not before", () => {
  const deltas = live(eventsOf(twoCalls));
  assert.deepEqual(kindsOf(deltas), ["text", "calls"]);
  const pause = deltas[1];
  assert.ok(pause?.kind === "calls");
  assert.equal(pause.eventId, 7);
  assert.equal(pause.step, 0);
  assert.equal(pause.usage.inputTokens, 10);
  assert.deepEqual(pause.calls, [
    { execId: "0.0.0", id: 1, providerToolCallId: "p1", tool: "f", args: '{"a":1}', callId: "p1" },
    { execId: "0.0.1", id: 2, providerToolCallId: "p2", tool: "f", args: "{}", callId: "p2" },
  ]);
  assert.deepEqual(answerLine(pause), {
    role: "assistant",
    text: "see",
    reasoning: "",
    toolCalls: [
      { id: "p1", name: "f", args: '{"a":1}' },
      { id: "p2", name: "f", args: "{}" },
    ],
  });
  assert.deepEqual(kindsOf(live(eventsOf(twoCalls.slice(0, -1)))), ["text"]);
});

test("after a pause the next answer begins: from there the deltas are the same", () => {
  const events = eventsOf([
    ...twoCalls,
    callOver("p1"),
    callOver("p2"),
    started(1),
    text("Done."),
    completed(1, STOP),
    turnEnded({ inputTokens: 20, outputTokens: 2 }),
  ]);
  const all = live(events);
  assert.deepEqual(kindsOf(all), ["text", "calls", "text", "ended"]);
  assert.deepEqual(live(events.slice(7)), all.slice(2));
  assert.deepEqual(endOf(all).said, { text: "Done.", reasoning: "" });
  // Of this answer, not of the turn: the client adds up what each request cost.
  assert.equal(endOf(all).usage.inputTokens, 10);
});

test("tools that the server runs itself are no pause; the next step's text is a new paragraph", () => {
  const deltas = live(
    eventsOf([
      started(0),
      text("First."),
      called("p1", []),
      completed(0, TOOL_CALLS),
      callOver("p1"),
      started(1),
      text("Second."),
      completed(1, STOP),
      turnEnded(),
    ]),
  );
  assert.deepEqual(kindsOf(deltas), ["text", "text", "ended"]);
  assert.equal(wordsOf(deltas), "First.\n\nSecond.");
  assert.equal(endOf(deltas).said.text, "First.\n\nSecond.");
  assert.equal(endOf(deltas).usage.inputTokens, 20);
});

test("execs that the gateway carries out itself are waited for and not shown", () => {
  const edit = [started(0), called("p1", ["0.0.0"]), called("p2", ["0.0.1"]), completed(0, TOOL_CALLS)];
  const mixed = live(eventsOf([...edit, exec(1, "0.0.0", "p1"), readExec(2, "0.0.1", "p2")]));
  const [pause] = mixed;
  assert.ok(pause?.kind === "calls");
  assert.equal(pause.eventId, 6);
  assert.deepEqual(
    pause.calls.map(({ execId }) => execId),
    ["0.0.0"],
  );
  const own = [started(0), called("p1", ["0.0.0"]), completed(0, TOOL_CALLS), readExec(1, "0.0.0", "p1")];
  assert.deepEqual(live(eventsOf([...own, readExec(2, "0.0.0.write", "p1"), callOver("p1")])), []);
});

test("a call that is over before it was asked for is not waited for", () => {
  const deltas = live(eventsOf([...twoCalls.slice(0, -1), callOver("p2")]));
  assert.deepEqual(kindsOf(deltas), ["text", "calls"]);
});

test("an exec that is asked for too early waits for the end of its step", () => {
  const early = [started(0), called("p1", ["a"]), exec(1, "a", "p1"), text("see")];
  assert.deepEqual(kindsOf(live(eventsOf(early))), ["text"]);
  const deltas = live(eventsOf([...early, completed(0, TOOL_CALLS)]));
  assert.deepEqual(kindsOf(deltas), ["text", "calls"]);
  assert.equal(deltas[1]?.eventId, 5);
});

test("a server that tells neither steps nor exec ids still pauses and ends", () => {
  assert.deepEqual(kindsOf(live(eventsOf([text("see"), exec(1, "x", "p1")]))), ["text", "calls"]);
  const deltas = live(eventsOf([text("Hello"), turnEnded({ inputTokens: 3, outputTokens: 4 })]));
  assert.deepEqual(kindsOf(deltas), ["text", "ended"]);
  assert.equal(endOf(deltas).finish, "stop");
  assert.equal(endOf(deltas).usage.inputTokens, 3);
});

test("an answer that was never streamed is taken from the model's message, and from nothing else", () => {
  const stored = encodeChatMessage(assistantSaid("From the blob"));
  const deltas = live(
    eventsOf([started(0), completed(0, STOP, assistantSaid("From the step")), turnEnded()]),
  );
  assert.deepEqual(kindsOf(deltas), ["text", "ended"]);
  assert.equal(wordsOf(deltas), "From the step");
  assert.equal(endOf(deltas).said.text, "From the step");
  for (const kind of [BlobKind.ASSISTANT_MESSAGE, BlobKind.MESSAGE, BlobKind.CONTENT, BlobKind.UNSPECIFIED])
    assert.deepEqual(kindsOf(live(eventsOf([started(0), setBlob(stored, kind), turnEnded()]))), ["ended"]);
});

test("what was streamed is not said again by the end of its step", () => {
  const streamed = [started(0), text("Hello"), completed(0, STOP, assistantSaid("Hello")), turnEnded()];
  assert.equal(wordsOf(live(eventsOf(streamed))), "Hello");
});

test("text and calls of one event: only the last delta ends it", () => {
  const whole = completed(0, TOOL_CALLS, assistantSaid("See"));
  const deltas = live(eventsOf([started(0), called("p1", ["x"]), exec(1, "x", "p1"), whole]));
  assert.deepEqual(
    deltas.map(({ kind, eventId, endsEvent }) => [kind, eventId, endsEvent]),
    [
      ["text", 4, false],
      ["calls", 4, true],
    ],
  );
});

test("what is too large for an event is asked for by its blob id", () => {
  const bytes = encodeChatMessage(assistantSaid("Long"));
  const state = initAnswer();
  const large = completed(0, STOP, assistantSaid("Long"));
  assert.equal(neededBlob(state, large), undefined);
  assert.ok(
    large.message.case === "interactionUpdate" && large.message.value.message.case === "stepCompleted",
  );
  const { message } = large.message.value.message.value;
  assert.ok(message !== undefined);
  message.content = { case: "blobId", value: new Uint8Array(32).fill(7) };
  assert.equal(neededBlob(state, large), "07".repeat(32));
  const [spoken] = project(state, 1, text("Hello"));
  assert.equal(neededBlob(spoken, large), undefined);
  assert.equal(wordsOf(project(state, 1, large, bytes)[1]), "Long");

  const asked = exec(1, "x", "p1");
  assert.ok(asked.message.case === "execServerMessage" && asked.message.value.message.case === "mcpArgs");
  const { argsJson } = asked.message.value.message.value;
  assert.ok(argsJson !== undefined);
  argsJson.content = { case: "blobId", value: new Uint8Array(32).fill(9) };
  assert.equal(neededBlob(state, asked), "09".repeat(32));
  const [over] = project(state, 1, turnEnded());
  assert.equal(neededBlob(over, asked), undefined, "nothing follows the end");
  const [, [pause]] = project(state, 1, asked, new TextEncoder().encode('{"big":1}'));
  assert.ok(pause?.kind === "calls");
  assert.equal(pause.calls[0]?.args, '{"big":1}');
});

test("every end has a finish reason or an error", () => {
  const turn = (finish: FinishReason, end: Parameters<typeof turnEnded>[0]) =>
    endOf(live(eventsOf([started(0), text("x"), completed(0, finish), turnEnded(end)])));
  const finishOf = (finish: FinishReason) => turn(finish, {}).finish;
  assert.equal(finishOf(STOP), "stop");
  assert.equal(finishOf(FinishReason.UNSPECIFIED), "stop");
  assert.equal(finishOf(LENGTH), "length");
  assert.equal(finishOf(CONTENT_FILTER), "content_filter");
  assert.equal(endError(turn(ERROR, {}))?.status, 503);
  assert.equal(endError(turn(STOP, {})), undefined);
  const failed = (kind: FailureKind) => ({ reason: TurnEndReason.FAILED, failure: { kind, message: "why" } });
  const cut = turn(CONTENT_FILTER, failed(FailureKind.CONTENT_FILTERED));
  assert.equal(cut.finish, "content_filter");
  assert.equal(endError(cut), undefined);
  const limited = turn(STOP, failed(FailureKind.RATE_LIMITED));
  assert.equal(limited.finish, undefined);
  assert.equal(endError(limited)?.status, 429);
  const aborted = turn(STOP, { reason: TurnEndReason.ABORTED });
  assert.equal(aborted.reason, "aborted");
  assert.equal(endError(aborted)?.code, "stopped");
});

test("a turn that came to one of its bounds ends its answer with a finish, and keeps the text or says why", () => {
  const end = (kind: FailureKind) =>
    turnEnded({ reason: TurnEndReason.FAILED, failure: { kind, message: "why" } });
  for (const [kind, finish] of [
    [FailureKind.STEP_LIMIT, "length"],
    [FailureKind.TOKEN_LIMIT, "length"],
    [FailureKind.NO_PROGRESS, "stop"],
  ] as const) {
    const cutOff = endOf(live(eventsOf([started(0), text("so far"), end(kind)])));
    assert.deepEqual([cutOff.finish, cutOff.said.text, endError(cutOff)], [finish, "so far", undefined]);
    const silent = live(eventsOf([started(0), completed(0, STOP), end(kind)]));
    assert.deepEqual(kindsOf(silent), ["text", "ended"]);
    assert.deepEqual([endOf(silent).finish, endOf(silent).said.text], [finish, "why"]);
  }
});

test("nothing follows the end", () => {
  assert.deepEqual(kindsOf(live(eventsOf([text("x"), turnEnded(), text("y"), turnEnded()]))), [
    "text",
    "ended",
  ]);
});

test("what an answer is not made of asks for no blob and changes nothing", () => {
  const state = initAnswer();
  const [over] = project(state, 1, turnEnded());
  assert.equal(neededBlob(over, setBlob(undefined)), undefined);
  assert.deepEqual(project(over, 2, text("too late")), [over, []]);
  const others = [
    serverMessage({ case: "interactionQuery", value: { id: 1 } }),
    update({ case: "heartbeat", value: {} }),
    readExec(1, "r", "p"),
  ];
  assert.deepEqual(
    others.map((message) => neededBlob(state, message)),
    [undefined, undefined, undefined],
  );
  for (const message of others.slice(0, 2)) assert.deepEqual(project(state, 1, message), [state, []]);
});

test("the model's message of a step that streamed nothing is fetched when it is in a blob", () => {
  const id = "0a".repeat(32);
  const silent = update({ case: "stepCompleted", value: { step: 0, message: inBlob(id) } });
  const [open] = project(initAnswer(), 1, started(0));
  assert.equal(neededBlob(open, silent), id);
  const [spoken] = project(open, 2, text("Streamed"));
  assert.equal(neededBlob(spoken, silent), undefined);
});
