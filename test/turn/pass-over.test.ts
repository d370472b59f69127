/**
 * A generation that is read again, against every beginning of it that a log may have.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../src/protocol/message.ts";
import { InteractionUpdateSchema } from "../../src/protocol/messages.ts";
import { type ContentInit, inBlob } from "../../src/turn/content.ts";
import type { Output } from "../../src/turn/messages.ts";
import { newOpenStep, noteOutput, type Run } from "../../src/turn/open-step.ts";
import { type Passed, PassOver } from "../../src/turn/pass-over.ts";
import { inline } from "./said.ts";

const text = (words: string): Output => ({ case: "textDelta", value: { text: words } });
const thinking = (words: string): Output => ({ case: "thinkingDelta", value: { text: words } });
const writing = (toolCallId: string, argsJsonDelta: string, tool = "shell"): Output => ({
  case: "partialToolCall",
  value: { toolCallId, tool, argsJsonDelta },
});
const called = (toolCallId: string, argsJson: ContentInit, tool = "shell"): Output => ({
  case: "toolCallStarted",
  value: { toolCall: { toolCallId, tool, argsJson } },
});

/** Everything that a model says, two calls written in turns among it. */
const GENERATION: readonly Output[] = [
  { case: "stepFallback", value: { step: 0, model: "other/model" } },
  thinking("What is "),
  thinking("there?"),
  { case: "thinkingCompleted", value: { durationMs: 5 } },
  text("Looking "),
  text("around 🌊. "),
  writing("a", '{"x":'),
  writing("b", "{"),
  writing("a", "1}"),
  called("a", inline('{"x":1}')),
  writing("b", "}"),
  called("b", inline("{}")),
  text("Both."),
];

function runsOf(updates: readonly Output[]): readonly Run[] {
  const open = newOpenStep({ step: 0, requestsBefore: 0, model: "m" }, 1);
  for (const message of updates) noteOutput(open, 1, create(InteractionUpdateSchema, { message }));
  return open.runs;
}

/** Character by character. */
function spelled(updates: readonly Output[]): readonly Output[] {
  return updates.flatMap((update): readonly Output[] => {
    if (update.case === "textDelta" || update.case === "thinkingDelta")
      return Array.from(update.value.text ?? "", (letter) => ({ ...update, value: { text: letter } }));
    if (update.case !== "partialToolCall") return [update];
    return Array.from(update.value.argsJsonDelta ?? "", (argsJsonDelta) => ({
      ...update,
      value: { ...update.value, argsJsonDelta },
    }));
  });
}

function newsOf(passed: readonly Passed[]): readonly Output[] {
  return passed.flatMap((one) => (one === "known" || one === "differs" ? [] : [one]));
}

test("G6: whatever the log has of a generation, reading it again says the rest, from the first character that is missing", () => {
  const letters = spelled(GENERATION);
  for (let cut = 0; cut <= letters.length; cut++) {
    const log = letters.slice(0, cut);
    for (const again of [GENERATION, letters]) {
      const passOver = new PassOver(runsOf(log));
      const passed = again.map((update) => passOver.take(update));
      assert.ok(!passed.includes("differs"), `cut at ${cut}`);
      const news = newsOf(passed);
      assert.deepEqual(runsOf([...log, ...news]), runsOf(GENERATION), `cut at ${cut}`);
      assert.deepEqual(spelled(news), letters.slice(cut), `cut at ${cut}`);
      assert.ok(passOver.isPast());
    }
  }
});

test("G1: a generation that says something else differs there, and has said nothing new before", () => {
  const letters = spelled(GENERATION);
  const runs = runsOf(letters);
  for (let at = 0; at < letters.length; at++) {
    const other = [...letters.slice(0, at), text("else"), ...letters.slice(at)];
    const passOver = new PassOver(runs);
    const passed = other.map((update) => passOver.take(update));
    const first = passed.indexOf("differs");
    assert.ok(first >= at, `at ${at}`);
    assert.deepEqual(newsOf(passed.slice(0, first)), [], `at ${at}`);
  }
});

test("G3: names of tools, arguments and their ends are compared, also of those that lie in blobs", () => {
  const blob = (digit: string) => inBlob(digit.repeat(64));
  const cases: readonly (readonly [logged: Output, again: Output, passed: Passed])[] = [
    [called("a", inline("{}")), called("a", inline("{}")), "known"],
    [called("a", inline("{}")), called("a", inline("[]")), "differs"],
    [called("a", inline("{}")), called("a", inline("{}"), "read"), "differs"],
    [called("a", inline("{}")), called("b", inline("{}")), "differs"],
    [called("a", blob("1")), called("a", blob("1")), "known"],
    [called("a", blob("1")), called("a", blob("2")), "differs"],
    [called("a", blob("1")), called("a", inline("{}")), "differs"],
    [called("a", inline("{}")), writing("a", "{}"), "differs"],
    [writing("a", "{"), writing("a", "{"), "known"],
    [writing("a", "{"), writing("a", "["), "differs"],
    [writing("a", "{"), writing("a", "{", "read"), "differs"],
    [writing("a", "{"), called("a", inline("{")), called("a", inline("{"))],
    [writing("a", "{}"), thinking("hm"), "differs"],
    [text("so"), { case: "thinkingCompleted", value: { durationMs: 1 } }, "differs"],
    [
      { case: "stepFallback", value: { step: 0, model: "one" } },
      { case: "stepFallback", value: { step: 0, model: "other" } },
      "differs",
    ],
  ];
  for (const [logged, again, passed] of cases) {
    const passOver = new PassOver(runsOf([logged]));
    if (logged.case === "partialToolCall" && again.case === "toolCallStarted") passOver.take(logged);
    assert.deepEqual(passOver.take(again), passed);
  }
});

test("a generation that ends before it has said what the log has is not past it", () => {
  const passOver = new PassOver(runsOf([text("so it is")]));
  passOver.take(text("so "));
  assert.ok(!passOver.isPast());
  passOver.take(text("it is"));
  assert.ok(passOver.isPast());
});

test("a call keeps the id that the log has of it, where an SDK makes up another one", () => {
  const passOver = new PassOver(
    runsOf([writing("x1", "{}"), called("x1", inline("{}")), writing("x2", "{")]),
  );
  assert.deepEqual(
    ["y1", "y2", "y1", "y3"].map((id) => passOver.idOf(id)),
    ["x1", "x2", "x1", "y3"],
  );
  const same = new PassOver(runsOf([writing("x1", "{}")]));
  assert.deepEqual(
    ["x1", "x2"].map((id) => same.idOf(id)),
    ["x1", "x2"],
  );
});
