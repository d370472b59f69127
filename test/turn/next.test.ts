/**
 * What a turn does next, by its facts alone: the same for a run that lived through them and for one that read them back.
 */
import assert from "node:assert/strict";
import { create, toBinary } from "../../src/protocol/message.ts";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { FailureKind, type RunRequest, UserMessageSchema } from "../../src/protocol/messages.ts";
import { broke, TurnOfFacts, wanted } from "./turn-of-facts.ts";

/** A step that asks for two files. */
function twoPlanned(): TurnOfFacts {
  const turn = TurnOfFacts.asked();
  turn.started();
  turn.planned("a");
  turn.planned("b");
  return turn;
}

function twoAsked(): TurnOfFacts {
  const turn = twoPlanned();
  turn.completed();
  turn.issued("a");
  turn.issued("b");
  return turn;
}

test("a turn waits for its request; a client that never says one, or says something else first, is refused", () => {
  const turn = new TurnOfFacts();
  assert.equal(wanted(turn), "wait");
  turn.hear({ kind: "close", seqno: 0 });
  assert.equal(wanted(turn), "fail: there is no request");
  const other = new TurnOfFacts();
  other.hear({ kind: "chunk", seqno: 0, body: new Uint8Array([255]) });
  assert.equal(wanted(other), "fail: chunk 0 is no message of an agent's client");
});

test("a request that says nothing to do, or what cannot be done, ends at once", () => {
  const asks = (request: Parameters<TurnOfFacts["request"]>[0]): string => {
    const turn = new TurnOfFacts();
    turn.request(request);
    return wanted(turn);
  };
  assert.equal(asks({ action: {} }), "fail: the request says nothing to do");
  const cancel = { action: { case: "cancelAction", value: {} } } as const;
  assert.equal(asks({ action: cancel }), "fail: there is nothing to cancel yet");
  assert.match(asks({ subagentDepth: 99 }), /^fail: subagents nest at most/);
  const command = { action: { case: "shellCommandAction", value: { command: "ls" } } } as const;
  assert.equal(asks({ action: command, execKinds: [] }), "fail: this client does not run commands");
});

test("the model and the tools are resolved once; what the user said is appended; then the model is called", () => {
  const turn = new TurnOfFacts();
  turn.request({});
  const { opened } = turn.facts.found;
  turn.facts.found.opened = undefined;
  assert.equal(wanted(turn), "open");
  turn.facts.found.opened = opened;
  assert.equal(wanted(turn), "append_user");
  turn.update({ case: "userMessageAppended", value: { userMessage: { text: "go" } } });
  assert.equal(wanted(turn), "call the model for step 0");
});

test("C0: execs are issued when the model's output of their step is complete, in its order", () => {
  const turn = twoPlanned();
  assert.equal(wanted(turn), "restart step 0 from 2, attempt 1", "cut off, nothing of it is issued");
  turn.completed();
  assert.equal(wanted(turn), "issue a b");
  const early = twoPlanned();
  assert.throws(() => early.issued("a"), AssertionFailed);
});

test("the next step begins when every exec has its outcome", () => {
  const turn = twoAsked();
  assert.throws(() => turn.started(), AssertionFailed);
  turn.result("a");
  assert.equal(wanted(turn), "complete a done");
  turn.over("a");
  assert.equal(wanted(turn), "wait");
  turn.result("b");
  turn.over("b");
  assert.equal(wanted(turn), "call the model for step 1");
});

test("D2: what a taken over client has not answered is complete as unknown", () => {
  const turn = twoAsked();
  turn.result("a");
  turn.hear({ kind: "takeover", sinceSeqno: 2, sinceEvent: 99 });
  assert.equal(wanted(turn), "complete a done, b unknown");
});

test("a restarted host issues what was planned and not yet asked, and asks nothing twice", () => {
  const turn = twoPlanned();
  turn.completed();
  turn.issued("a");
  assert.equal(wanted(turn), "issue b");
  turn.issued("b");
  assert.equal(wanted(turn), "wait");
});

test("C0: a restarted host restarts the step that was cut off, from where it began", () => {
  const turn = TurnOfFacts.asked();
  turn.started(7);
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 1");
  turn.restarted(9);
  assert.equal(wanted(turn), "restart step 0 from 9, attempt 2");
  assert.equal(turn.facts.steps, 1);
});

test("C0: a restarted step plans anew: what was planned before is never issued", () => {
  const turn = TurnOfFacts.asked();
  turn.started(1);
  turn.planned("a");
  turn.restarted();
  turn.planned("b");
  turn.completed();
  assert.equal(wanted(turn), "issue b");
});

test("C0: a step that is complete never calls the model again", () => {
  const turn = TurnOfFacts.asked();
  turn.started();
  turn.completed("done");
  assert.equal(wanted(turn), "completed");
  assert.throws(() => turn.restarted(), AssertionFailed);
  assert.throws(() => turn.completed(), AssertionFailed);
});

test("F1: a step restarts three times, then the turn fails", () => {
  const turn = TurnOfFacts.asked();
  turn.started(7);
  for (const eventId of [8, 9]) turn.restarted(eventId);
  assert.equal(wanted(turn), "restart step 0 from 9, attempt 3");
  turn.restarted(10);
  assert.equal(wanted(turn), "fail: a step was cut off 4 times");
});

test("F1: a step that its provider breaks off restarts as one that a crash cut off, and no more often", () => {
  const turn = TurnOfFacts.asked();
  turn.started(7);
  broke(turn);
  assert.equal(
    wanted(turn),
    "fail: the provider broke off",
    "before any content the model tries again by itself",
  );
  turn.planned("a");
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 1");
  for (const eventId of [9, 10, 11]) turn.restarted(eventId);
  turn.update({ case: "textDelta", value: { text: "x" } });
  broke(turn);
  assert.equal(wanted(turn), "fail: the provider broke off");
});

test("F1: the restarts of one step do not count against the next", () => {
  const turn = TurnOfFacts.asked();
  turn.started();
  for (const eventId of [3, 4, 5]) turn.restarted(eventId);
  turn.planned("a");
  turn.completed();
  turn.issued("a");
  turn.result("a");
  turn.over("a");
  turn.started(20);
  assert.equal(wanted(turn), "restart step 1 from 20, attempt 1");
});

test("G1: text that an OpenAI stream has shown is final; thinking is not", () => {
  const turn = TurnOfFacts.asked({ options: { shownIsFinal: true } });
  turn.started(7);
  turn.update({ case: "thinkingDelta", value: { text: "hm" } });
  broke(turn, { passedMs: 9_999, retryAfterMs: 5_000 });
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 1", "what was thought holds no head back");
  turn.update({ case: "textDelta", value: { text: "so" } });
  const decision = turn.next();
  assert.ok(decision.kind === "end" && decision.ending.reason === "failed");
  assert.equal(decision.ending.failure.kind, FailureKind.UPSTREAM_INTERRUPTED);
});

test("G2: a step that has sent all its requests, or would wait too long, fails with what its provider said", () => {
  for (const more of [{ requests: 12 }, { retryAfterMs: 60_000 }, { isPassing: false }]) {
    const turn = TurnOfFacts.asked();
    turn.started(7);
    turn.update({ case: "textDelta", value: { text: "so" } });
    broke(turn, more);
    assert.equal(wanted(turn), "fail: the provider broke off", JSON.stringify(more));
  }
  const held = TurnOfFacts.asked({ options: { shownIsFinal: true } });
  held.started(7);
  held.update({ case: "partialToolCall", value: { toolCallId: "a" } });
  broke(held, { passedMs: 9_000, retryAfterMs: 5_000 });
  assert.equal(wanted(held), "fail: the provider broke off", "the status could not be told any more");
});

test("an edit reads, then writes what follows from it; the write is issued when the read has its outcome", () => {
  const turn = TurnOfFacts.asked();
  turn.started();
  turn.planned("e", "edit");
  turn.completed();
  assert.equal(wanted(turn), "issue e");
  turn.issued("e");
  assert.equal(wanted(turn), "wait");
  turn.result("e", undefined, "a text");
  const decision = turn.next();
  assert.ok(decision.kind === "issue");
  const [exec] = decision.execs;
  assert.ok(exec?.plan.kind === "write");
  assert.deepEqual([exec.execId, exec.plan.text], ["e.write", "b text"]);
  turn.issued("e.write");
  assert.equal(wanted(turn), "wait");
  turn.say({ case: "execClientMessage", value: { execId: "e.write", message: writeDone } });
  assert.equal(wanted(turn), "complete e done");
});

const writeDone = {
  case: "writeResult",
  value: { result: { case: "success", value: { bytesWritten: 1 } } },
} as const;

test("a cancelled turn stops what runs, once, and is answered before it ends", () => {
  const turn = twoAsked();
  const action = { action: { case: "cancelAction", value: {} } } as const;
  turn.say({ case: "conversationAction", value: action });
  assert.equal(wanted(turn), "stop a b");
  for (const execId of ["a", "b"]) {
    const message = { case: "abort", value: { execId } } as const;
    turn.tell({ case: "execServerControlMessage", value: { message } });
  }
  assert.equal(wanted(turn), "wait");
  turn.result("a");
  turn.result("b");
  turn.over("a");
  turn.over("b");
  assert.equal(wanted(turn), "cancelled");
});

test("C1: a command of the user's runs once, also when the user says something meanwhile", () => {
  const action = { action: { case: "shellCommandAction", value: { command: "make" } } } as const;
  const turn = TurnOfFacts.asked({ action });
  assert.equal(wanted(turn), "run_command");
  turn.started();
  turn.planned("command", "shell");
  turn.update({ case: "stepCompleted", value: { step: 0 } });
  assert.equal(wanted(turn), "issue command");
  turn.issued("command");
  const said = { action: { case: "userMessageAction", value: { userMessage: { text: "and?" } } } } as const;
  turn.say({ case: "conversationAction", value: said });
  turn.result("command");
  assert.equal(wanted(turn), "complete command done");
  turn.over("command");
  assert.equal(wanted(turn), "completed");
});

test("A8: what the user says twice under one id is heard once", () => {
  const turn = TurnOfFacts.asked();
  const say = (text: string, messageId: string): void => {
    const action = {
      action: { case: "userMessageAction", value: { userMessage: { text, messageId } } },
    } as const;
    turn.say({ case: "conversationAction", value: action });
  };
  say("and more", "m1");
  say("and more", "m1");
  say("and more", "");
  say("and more", "");
  assert.deepEqual(
    turn.facts.said.map(({ messageId }) => messageId),
    ["", "m1", "", ""],
  );
});

test("limits end a turn in the middle, and say which", () => {
  const turn = TurnOfFacts.asked();
  const reason = (limits: Parameters<TurnOfFacts["next"]>[0]): string => {
    const decision = turn.next(limits);
    assert.ok(decision.kind === "end" && decision.ending.reason === "failed");
    return decision.ending.failure.message;
  };
  assert.match(reason({ stepsMax: 0 }), /took 0 steps/);
  assert.match(reason({ execsMax: 0 }), /ran 0 tools/);
  assert.match(reason({ tokensMax: 0 }), /used 0 tokens/);
});

test("an answer that is done ends the turn, unless the user has said more", () => {
  const turn = TurnOfFacts.asked();
  turn.started();
  turn.completed("done");
  const userMessage = { userMessage: { text: "and more" } };
  const action = { action: { case: "userMessageAction", value: userMessage } } as const;
  turn.say({ case: "conversationAction", value: action });
  assert.equal(wanted(turn), "append_user");
  turn.update({ case: "userMessageAppended", value: userMessage });
  assert.equal(wanted(turn), "call the model for step 1");
});

test("much is read in pieces: others get their turn in between", () => {
  const turn = TurnOfFacts.asked();
  const text = "x".repeat(400_000);
  for (let at = 0; at < 4; at++) {
    turn.update({ case: "userMessageAppended", value: { userMessage: { text } } });
  }
  assert.equal(wanted(turn), "yield");
  assert.equal(wanted(turn), "yield");
  assert.equal(wanted(turn), "call the model for step 0");
});

test("a request that is not the first chunk, and a message of no kind, make no sense", () => {
  const violation = (act: (turn: TurnOfFacts) => void): string | undefined => {
    const turn = TurnOfFacts.asked();
    act(turn);
    return turn.facts.violation;
  };
  const again: Partial<RunRequest> = {};
  assert.match(violation((turn) => turn.request({ ...again })) ?? "", /one run request/);
  const nothing = { kind: "chunk", seqno: 1, body: new Uint8Array() } as const;
  assert.match(violation((turn) => turn.hear(nothing)) ?? "", /does not know/);
  const control = { case: "execClientControlMessage", value: {} } as const;
  assert.match(violation((turn) => turn.say(control)) ?? "", /does not know/);
});

test("E8: what is said while a turn runs fits into one event, with room for what is around it", () => {
  const bytesMax = LIMITS.eventBytesMax - 1_024;
  const messageOf = (bytes: number) => {
    const around = 4; // A tag, and the length in three bytes.
    return create(UserMessageSchema, { text: "x".repeat(bytes - around) });
  };
  assert.equal(toBinary(UserMessageSchema, messageOf(bytesMax)).length, bytesMax);
  const violation = (bytes: number): string | undefined => {
    const turn = TurnOfFacts.asked();
    const userMessage = messageOf(bytes);
    const action = { action: { case: "userMessageAction", value: { userMessage } } } as const;
    turn.say({ case: "conversationAction", value: action });
    // The words that began the turn, and these.
    assert.equal(turn.facts.said.length, turn.facts.violation === undefined ? 2 : 1);
    return turn.facts.violation;
  };
  assert.equal(violation(bytesMax), undefined);
  assert.equal(violation(bytesMax + 1), `a message has at most ${bytesMax} bytes: attach the rest as a file`);
});

test("what a request says of the conversation before is checked", () => {
  const asks = (request: Parameters<TurnOfFacts["request"]>[0]): string => wanted(TurnOfFacts.asked(request));
  const bytes = (text: string) => ({ content: { case: "inline", value: Buffer.from(text) } }) as const;
  const blobId = new Uint8Array(32);
  const messages = [blobId];
  assert.match(
    asks({ preFetchedBlobs: [{ blobId, blobData: new Uint8Array(1) }] }),
    /was sent with other bytes$/,
  );
  const both = { conversationState: { messages }, history: [bytes("x")] };
  assert.match(asks(both), /a conversation state or a history, not both$/);
  assert.match(asks({ conversationState: { messages: [new Uint8Array(3)] } }), /not in order$/);
  const many = Array.from({ length: 5_001 }, () => bytes("x"));
  assert.match(asks({ history: many }), /more than 5000 messages/);
  assert.match(asks({ history: [bytes("no message")] }), /^fail: /);
  const carryOn = { action: { case: "continueAction", value: {} } } as const;
  assert.equal(asks({ action: carryOn }), "fail: there is no conversation to continue");
});

test("only a step's message is the model's, and only what is said is the user's", () => {
  const content = (role: string) => {
    const value = Buffer.from(JSON.stringify({ role, content: [{ type: "text", text: "x" }] }));
    return { content: { case: "inline", value } } as const;
  };
  const said = TurnOfFacts.asked();
  const userMessage = { messageJson: content("assistant") };
  said.update({ case: "userMessageAppended", value: { userMessage } });
  assert.equal(wanted(said), "fail: what is said to the model is the user's or the system's");
  const step = TurnOfFacts.asked();
  step.started();
  step.update({ case: "stepCompleted", value: { step: 0, message: content("user") } });
  assert.equal(wanted(step), "fail: a step's message is the model's");
  const summarize = { action: { case: "summarizeAction", value: {} } } as const;
  step.say({ case: "conversationAction", value: summarize });
  assert.match(step.facts.violation ?? "", /it can be cancelled or told something, not summarizeAction/);
});

test("a bug in the log's bytes is thrown, and not blamed on the client", () => {
  const turn = TurnOfFacts.asked();
  const { found } = turn.facts;
  Reflect.set(found, "idOf", undefined);
  assert.throws(() => turn.next(), TypeError);
});
