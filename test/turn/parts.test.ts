/**
 * A turn part by part: whatever happens in it and however slowly it is read, who appends texts and obeys `retract` shows the
 * view's text.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { create } from "../../src/protocol/message.ts";
import { type AgentServerMessage, AgentServerMessageSchema } from "../../src/protocol/index.ts";
import { partsBetween, queued, settledBetween, type TurnPart } from "../../src/turn/parts.ts";
import { reduce } from "../../src/turn/view-fold.ts";
import { EMPTY_VIEW, knowTodos, spokenText, type TurnView } from "../../src/turn/view.ts";
import * as said from "./said.ts";

/** The view before each message, and after the last. */
function views(messages: readonly AgentServerMessage[], from = EMPTY_VIEW): readonly TurnView[] {
  const all = [from];
  let view = from;
  for (const message of messages) {
    view = reduce(view, view.eventId + 1, message);
    all.push(view);
  }
  return all;
}

/** The parts that a reader gets who is there for every message. */
function live(messages: readonly AgentServerMessage[]): readonly TurnPart[] {
  const all = views(messages);
  return messages.flatMap((message, at) =>
    partsBetween(all[at] ?? EMPTY_VIEW, all[at + 1] ?? EMPTY_VIEW, message),
  );
}

/** The simplest loop. */
function shown(parts: readonly TurnPart[]): string {
  let text = "";
  for (const part of parts) {
    if (part.type === "text") text += part.text;
    if (part.type === "retract") {
      assert.equal(text, part.kept + part.text, "what is taken back is the end of what is shown");
      text = part.kept;
    }
  }
  return text;
}

const words = fc.constantFrom("one ", "two ", "three ", "");
const anything: fc.Arbitrary<AgentServerMessage> = fc.oneof(
  { arbitrary: words.map(said.text), weight: 6 },
  { arbitrary: words.map(said.thinking), weight: 2 },
  { arbitrary: fc.constant(said.thinkingCompleted(3)), weight: 1 },
  { arbitrary: fc.integer({ min: 0, max: 3 }).map(said.started), weight: 2 },
  { arbitrary: fc.integer({ min: 1, max: 3 }).map((attempt) => said.restarted(0, attempt)), weight: 2 },
  { arbitrary: fc.constant(said.completed(0)), weight: 2 },
  { arbitrary: fc.constantFrom("a", "b").map((id) => said.callWritten(id, "shell", "{}")), weight: 1 },
  { arbitrary: fc.constantFrom("a", "b").map((id) => said.callStarted(id, `exec-${id}`)), weight: 1 },
  { arbitrary: fc.constantFrom("a", "b").map((id) => said.callOver(id, `exec-${id}`)), weight: 1 },
  { arbitrary: fc.constant(said.answerKept("never streamed")), weight: 1 },
  { arbitrary: fc.constant(said.user("more", "m")), weight: 1 },
);

test("a continued step keeps its text, and loses what it said behind it; a fallback is the model that is shown", () => {
  const value = { step: 0, rollbackToEventId: "3", continuation: 1, requestsBefore: 1 };
  const messages = [
    said.started(0),
    said.update({ case: "stepFallback", value: { step: 0, model: "other" } }),
    said.text("half a wo"),
    said.callWritten("x", "t", "{"),
    said.update({ case: "stepContinued", value }),
    said.text("rd"),
  ];
  assert.equal(shown(live(messages)), "half a word");
  assert.deepEqual(
    live(messages).map(({ type }) => type),
    ["step", "text", "tool", "retract", "continued", "text"],
  );
  const { parts, model, restarts } = views(messages).at(-1) ?? EMPTY_VIEW;
  assert.deepEqual([parts.map(({ type }) => type), model, restarts], [["text"], "other", 1]);
});

test("texts appended and retracts obeyed are the view's text, at every message", () => {
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 40 }), (messages) => {
      const all = views(messages);
      const parts: TurnPart[] = [];
      for (const [at, message] of messages.entries()) {
        parts.push(...partsBetween(all[at] ?? EMPTY_VIEW, all[at + 1] ?? EMPTY_VIEW, message));
        assert.equal(shown(parts), spokenText(all[at + 1] ?? EMPTY_VIEW));
      }
    }),
  );
});

test("the same holds for a reader that looks now and then", () => {
  const looks = fc.array(fc.tuple(anything, fc.boolean()), { maxLength: 40 });
  fc.assert(
    fc.property(looks, (timeline) => {
      const all = views(timeline.map(([message]) => message));
      let seen = EMPTY_VIEW;
      const parts: TurnPart[] = [];
      for (const [at, [, isLooking]] of timeline.entries()) {
        const view = all[at + 1] ?? EMPTY_VIEW;
        if (!isLooking) continue;
        parts.push(...partsBetween(seen, view));
        seen = view;
        assert.equal(shown(parts), spokenText(view));
      }
    }),
  );
});

test("the same holds for what waited for a slow reader, and it is no more than the view has", () => {
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 60 }), (messages) => {
      const all = views(messages);
      const view = all.at(-1) ?? EMPTY_VIEW;
      const waiting = live(messages).reduce<readonly TurnPart[]>(queued, []);
      assert.equal(shown(waiting), spokenText(view));
      const taken = waiting.filter(({ type }) => type === "retract" || type === "step").length;
      assert.ok(waiting.length <= 5 * view.parts.length + taken * 12 + 4, `${waiting.length} wait`);
    }),
  );
});

test("what is settled is never taken back, and with the end it is all that was said", () => {
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 40 }), (messages) => {
      const all = views([...messages, said.ended()]);
      let text = "";
      for (const [at, view] of all.entries()) {
        text += shown(settledBetween(all[at - 1] ?? EMPTY_VIEW, view));
        assert.equal(text, spokenText(view.mark ?? view));
      }
      assert.equal(text, spokenText(all.at(-1) ?? EMPTY_VIEW));
    }),
  );
});

test("a step that begins anew takes back its text, its thoughts and the calls it was writing", () => {
  const parts = live([
    said.started(0),
    said.text("First."),
    said.completed(0),
    said.started(1),
    said.thinking("hm"),
    said.text("Wrong"),
    said.callWritten("c", "shell", "{"),
    said.restarted(1, 1),
    said.text("Right."),
  ]);
  const taken = parts.find((part) => part.type === "retract");
  assert.deepEqual([taken?.step, taken?.text, taken?.kept], [1, "\n\nWrong", "First."]);
  assert.deepEqual(
    taken?.parts.map(({ type }) => type),
    ["thinking", "text", "tool"],
  );
  assert.deepEqual(
    parts.flatMap((part) => (part.type === "step" ? [[part.step, part.attempt]] : [])),
    [
      [0, 0],
      [1, 0],
      [1, 1],
    ],
  );
  assert.equal(shown(parts), "First.\n\nRight.");
});

test("a step that begins anew before it said anything takes nothing back", () => {
  const parts = live([said.started(0), said.restarted(0, 1), said.text("Hello.")]);
  assert.deepEqual(
    parts.map(({ type }) => type),
    ["step", "step", "text"],
  );
});

test("a reader that missed a restart keeps what the new attempt says again", () => {
  const before = views([said.started(0), said.callStarted("c", "e"), said.text("The same")]).at(-1);
  assert.ok(before !== undefined);
  const again = [said.restarted(0, 1), said.callStarted("c", "e"), said.text("The same, and more")];
  const after = views(again, before).at(-1);
  assert.ok(after !== undefined);
  assert.deepEqual(
    partsBetween(before, after).filter(({ type }) => type === "text" || type === "retract"),
    [{ type: "text", step: 0, text: ", and more" }],
  );
  const other = views([said.restarted(0, 1), said.text("The same")], before).at(-1);
  assert.ok(other !== undefined);
  const [taken] = partsBetween(before, other);
  assert.deepEqual(taken?.type === "retract" ? taken.kept : undefined, "");
});

test("a call that began anew waits behind the retract that took the first one back", () => {
  const waiting = live([
    said.started(0),
    said.callWritten("c", "shell", "{"),
    said.restarted(0, 1),
    said.callWritten("c", "shell", "{}"),
    said.callStarted("c", "e"),
    said.callOver("c", "e"),
  ]).reduce<readonly TurnPart[]>(queued, []);
  assert.deepEqual(
    waiting.map((part) => (part.type === "tool" ? part.change : part.type)),
    ["step", "writing", "retract", "step", "writing", "started", "over"],
  );
});

test("todos are told when all of them are known, and when they change", () => {
  const todo = said.todo("tea");
  const of = (before: TurnView, after: TurnView) =>
    partsBetween(before, after).flatMap((part) => (part.type === "todos" ? [part.items] : []));
  const listed = reduce(EMPTY_VIEW, 1, said.checkpoint([todo.blobId]));
  assert.deepEqual(of(EMPTY_VIEW, listed), []);
  const known = knowTodos(listed, { [todo.blobId]: todo.item });
  assert.deepEqual(of(listed, known), [[todo.item]]);
  assert.deepEqual(of(known, reduce(known, 2, said.checkpoint([todo.blobId]))), []);
  assert.deepEqual(of(known, reduce(known, 2, said.checkpoint([]))), [[]]);
});

test("a summary and what the user said meanwhile are parts", () => {
  const parts = live([said.user("hi", "1"), said.user("quick!", "2"), said.summary("all of it")]);
  assert.deepEqual(parts, [
    { type: "user", text: "hi", messageId: "1" },
    { type: "user", text: "quick!", messageId: "2" },
    { type: "summary", text: "all of it" },
  ]);
});

test("a hundred thousand pieces are passed on without copying the text", () => {
  const delta = said.text("word ");
  let view = reduce(EMPTY_VIEW, 1, said.started(0));
  let length = 0;
  for (let at = 0; at < 100_000; at++) {
    const next = reduce(view, view.eventId + 1, delta);
    const [part] = partsBetween(view, next, delta);
    length += part?.type === "text" ? part.text.length : 0;
    view = next;
  }
  assert.equal(length, 500_000);
});

test("a call's changes come one by one: written, started, output, progress, over", () => {
  const parts = live([
    said.callWritten("c", "shell", "{"),
    said.callWritten("c", "", "}"),
    said.callStarted("c", "e"),
    said.output("e", "stderr", "one\n"),
    said.progress("c", "tick"),
    said.progress("c", "tick"),
    said.output("e", "stdout", "two"),
    said.callOver("c", "e"),
  ]);
  assert.deepEqual(
    parts.map((part) => {
      if (part.type === "tool") return part.change;
      return part.type === "tool-output" ? [part.stream, part.text] : part.type;
    }),
    [
      "writing",
      "writing",
      "started",
      ["stderr", "one\n"],
      ["progress", "tick"],
      ["progress", "tick"],
      ["stdout", "two"],
      "over",
    ],
  );
  const waiting = parts.reduce<readonly TurnPart[]>(queued, []);
  assert.deepEqual(
    waiting.map((part) => (part.type === "tool-output" ? part.text : "")),
    ["", "", "one\ntwo", "tick\ntick", ""],
  );
});

test("who comes late is told of a call in the same order, with all that it wrote", () => {
  const view = views([
    said.callStarted("c", "e"),
    said.output("e", "stderr", "one"),
    said.progress("c", "tick"),
    said.callOver("c", "e"),
  ]).at(-1);
  assert.deepEqual(
    partsBetween(EMPTY_VIEW, view ?? EMPTY_VIEW).map((part) =>
      part.type === "tool" ? part.change : part.type,
    ),
    ["started", "tool-output", "tool-output", "over"],
  );
});

test("a question is told once, what was used when it grows, and of the connection only the last waits", () => {
  const query = { id: 4, query: { case: "approval" as const, value: { tool: "shell" } } };
  const asked = create(AgentServerMessageSchema, { message: { case: "interactionQuery", value: query } });
  const usage = { inputTokens: 10, outputTokens: 2 };
  const done = (step: number) => said.update({ case: "stepCompleted", value: { step, usage } });
  const parts = live([said.started(0), asked, done(0), said.started(1), done(1)]);
  assert.deepEqual(
    parts.map((part) => {
      if (part.type === "question") return part.query.id;
      return part.type === "usage" ? part.usage.inputTokens : part.type;
    }),
    ["step", 4, 10, "step", 20],
  );
  const state = { type: "state", state: "live", detail: undefined } as const;
  const gone = { type: "state", state: "reconnecting", detail: "refused" } as const;
  assert.deepEqual(
    [gone, ...parts, gone, state].reduce<readonly TurnPart[]>(queued, []).map(({ type }) => type),
    ["step", "question", "step", "usage", "state"],
  );
});

test("F2: of endless output and progress no more waits for a slow reader than the view has", () => {
  const messages = [
    said.callStarted("c", "e"),
    ...Array.from({ length: 40 }, () => said.output("e", "stdout", "x".repeat(50_000))),
    ...Array.from({ length: 400 }, (_, at) => said.progress("c", `line ${at}`)),
  ];
  const waiting = live(messages).reduce<readonly TurnPart[]>(queued, []);
  assert.deepEqual(
    waiting.map((part) => (part.type === "tool-output" ? part.stream : part.type)),
    ["tool", "stdout", "progress"],
  );
  const call = views(messages).at(-1)?.parts[0];
  assert.ok(call?.type === "tool");
  assert.deepEqual(
    waiting.map((part) => ("text" in part ? part.text.length : 0)),
    [0, call.output.length, call.progress.join("\n").length],
  );
});
