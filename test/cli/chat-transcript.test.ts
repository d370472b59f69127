/**
 * The transcript of a turn: the same parts always read the same.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonOf } from "../../src/cli/chat/json-line.ts";
import { recentParts } from "../../src/cli/chat/recent-parts.ts";
import { newActivity } from "../../src/cli/chat/status-text.ts";
import { styleOf } from "../../src/cli/chat/style.ts";
import { newTranscript } from "../../src/cli/chat/transcript.ts";
import { failureOf } from "../../src/cli/chat/turn-end-text.ts";
import { emptyView, reduce, type ToolView, type TurnEnd, type TurnPart } from "../../src/client/index.ts";
import { FailureKind, TodoStatus, ToolOutcome } from "../../src/protocol/messages.ts";
import { type Update, updateMessage } from "../../src/turn/messages.ts";
import { partsBetween } from "../../src/turn/parts.ts";
import { EMPTY_TOOL } from "../../src/turn/tool-view.ts";

const USAGE = {
  inputTokens: 1_200,
  outputTokens: 34,
  cacheReadTokens: 900,
  cacheWriteTokens: 0,
  reasoningTokens: 5,
};
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function transcriptOf(parts: readonly TurnPart[], { columns = 60, showsThinking = true, typed = "hi" } = {}) {
  const screen = { isTTY: true, columns, write: () => undefined };
  const times = [0, 2_500];
  const transcript = newTranscript({
    style: styleOf(screen, { NO_COLOR: "1" }),
    showsThinking,
    typed,
    now: () => times.shift() ?? 2_500,
  });
  return parts.map((part) => transcript.render(part)).join("");
}

const CALL: ToolView = {
  ...EMPTY_TOOL,
  toolCallId: "c1",
  tool: "shell",
  args: '{"command":"npm test"}',
  state: "running",
  execIds: ["e1"],
};
const start = (call: ToolView): TurnPart => ({ type: "tool", change: "started", call });
const SHELL = start(CALL);
const output = (text: string, call = CALL): TurnPart => ({
  type: "tool-output",
  call,
  text,
  stream: "stdout",
});
const ended = (outcome: NonNullable<ToolView["outcome"]>, result = ""): TurnPart => ({
  type: "tool",
  change: "over",
  call: { ...CALL, outcome, result },
});
const said = (text: string): TurnPart => ({ type: "text", step: 0, text });
const thought = (text: string): TurnPart => ({ type: "thinking", step: 0, text });
const asked = (text: string): TurnPart => ({ type: "user", text, messageId: "" });
const over = (end: Partial<TurnEnd>): TurnPart => ({
  type: "end",
  end: { reason: "completed", failure: undefined, error: undefined, usage: USAGE, text: "", ...end },
});

test("a whole turn: thinking, text, a tool with its output, usage", () => {
  const text = transcriptOf([
    asked("hi"),
    { type: "step", step: 0, attempt: 0, model: "rehearsal/rehearsal" },
    thought("Let me "),
    thought("see."),
    said("\nI run "),
    said("the tests."),
    SHELL,
    output("ok 1\nok"),
    output(" 2\n"),
    ended("done", "exit code 0"),
    said("All is well.\n"),
    over({}),
  ]);
  assert.equal(
    text,
    [
      "Let me see.",
      "",
      "I run the tests.",
      "",
      "● shell  npm test",
      "  │ ok 1",
      "  │ ok 2",
      "  ✓ done",
      "",
      "All is well.",
      "",
      "rehearsal/rehearsal · 1,200 in (+ 900 cached) · 34 out (5 thinking) · 2.5 s",
      "",
    ].join("\n"),
  );
});

test("of long output the first lines are shown, and how many there were more", () => {
  const lines = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`).join("");
  const text = transcriptOf([SHELL, output(lines), ended("done")]);
  assert.match(text, /│ line 12\n {4}… 28 more lines\n {2}✓ done\n$/);
  assert.doesNotMatch(text, /line 13/);
});

test("lines are cut to the screen's width, also wide ones", () => {
  const text = transcriptOf([SHELL, output(`${"日".repeat(50)}\n`), ended("done")], { columns: 20 });
  assert.match(text, /^ {2}│ 日日日日日日日…$/m);
});

test("a character that comes in two pieces is one", () => {
  const [first, second] = [utf8("é").subarray(0, 1), utf8("é").subarray(1)];
  const piece = (value: Uint8Array): Update => ({
    case: "shellOutputDelta",
    value: { execId: "e1", output: { case: "stdout", value } },
  });
  const parts = partsOf([
    { case: "toolCallStarted", value: { toolCall: { toolCallId: "c1", tool: "shell", execIds: ["e1"] } } },
    piece(first),
    piece(second),
  ]);
  assert.match(transcriptOf([...parts, ended("done")]), /│ é\n/);
});

test("every outcome of a tool has its words; unknown says what is known", () => {
  assert.match(transcriptOf([SHELL, ended("failed", "exit code 1\nboom")]), /│ boom\n {2}✗ failed\n$/);
  assert.match(transcriptOf([SHELL, ended("denied", "no")]), /⊘ denied\n$/);
  assert.match(transcriptOf([SHELL, ended("aborted")]), /■ aborted\n$/);
  assert.match(
    transcriptOf([SHELL, ended("unknown")]),
    /\? unknown: it was started; how it ended is not known\n$/,
  );
});

test("tools that run at the same time say who speaks", () => {
  const other = { ...CALL, toolCallId: "c2", args: '{"command":"make"}', execIds: ["e2"] };
  const text = transcriptOf([
    SHELL,
    start(other),
    output("one\n"),
    output("two\n", other),
    output("three\n", other),
    ended("done"),
  ]);
  assert.equal(
    text,
    [
      "● shell  npm test",
      "",
      "● shell  make",
      "  shell  npm test:",
      "  │ one",
      "  shell  make:",
      "  │ two",
      "  │ three",
      "  ✓ shell  npm test: done",
      "",
    ].join("\n"),
  );
});

test("a subagent's progress stands indented under it", () => {
  const call = { ...CALL, tool: "subagent", args: '{"description":"look around","prompt":"..."}' };
  const progress: TurnPart = { type: "tool-output", stream: "progress", call, text: "step 1\nread a.txt" };
  const text = transcriptOf([start(call), progress]);
  assert.equal(text, "● subagent  look around\n    step 1\n    read a.txt\n");
});

test("a restarted step is said to be void, thinking can be hidden, queued messages are shown", () => {
  const text = transcriptOf(
    [
      asked("hi"),
      thought("secret"),
      said("Half an ans"),
      { type: "retract", step: 0, text: "Half an ans", kept: "", parts: [] },
      { type: "step", step: 0, attempt: 1, model: "m" },
      said("A whole answer."),
      asked("and now?"),
    ],
    { showsThinking: false, columns: 200 },
  );
  assert.doesNotMatch(text, /secret|› hi/);
  assert.match(
    text,
    /Half an ans\n\n↻ .*void \(restart 1 of at most 3\)\n\nA whole answer\.\n\n› and now\?\n$/,
  );
});

test("an answer that its model continues is unbroken on the screen; the status line says so until it writes", () => {
  const continued: TurnPart = { type: "continued", step: 0 };
  assert.equal(transcriptOf([asked("hi"), said("Half an ans"), continued, said("wer.")]), "Half an answer.");
  const activity = newActivity();
  activity.see(continued);
  assert.equal(activity.text, "the answer was cut off; its model is asked to write on");
  activity.see(said("wer."));
  assert.equal(activity.text, "writing");
  assert.deepEqual(jsonOf(continued), { type: "step_continued", step: 0 });
});

test("a failed turn says what failed and what to do", () => {
  const failure = {
    kind: FailureKind.RATE_LIMITED,
    message: "Too many requests.",
    providerStatus: 429,
    retryAfterMs: 20_000,
  };
  const text = transcriptOf([over({ reason: "failed", failure })]);
  assert.match(
    text,
    /Failed \(rate_limited\): Too many requests \(it asks to wait 20\.0 s\); wait a little, then \/continue\.\n/,
  );
});

test("a summary is shown once, whether or not the model has just written it", () => {
  const summary: TurnPart = { type: "summary", text: "Much was said." };
  const written = transcriptOf([said("Much was"), said(" said.\n"), summary]);
  assert.equal(written, "Much was said.\n\nThis stands for everything before it now.\n");
  assert.equal(transcriptOf([summary]), "Summary of what was said before:\nMuch was said.\n");
});

test("todos stand with how far they are", () => {
  const items = [
    { id: "1", text: "first", status: TodoStatus.COMPLETED },
    { id: "2", text: "second", status: TodoStatus.IN_PROGRESS },
    { id: "3", text: "third\u001b[2J", status: TodoStatus.PENDING },
  ];
  assert.equal(transcriptOf([{ type: "todos", items }]), "  ☑ first\n  ◐ second\n  ☐ third\\u{1b}[2J\n");
});

/** What a reader gets of these, one by one. */
function partsOf(updates: readonly Update[]): readonly TurnPart[] {
  const parts: TurnPart[] = [];
  let view = emptyView();
  for (const update of updates) {
    const message = updateMessage(update);
    const next = reduce(view, view.eventId + 1, message);
    parts.push(...partsBetween(view, next, message));
    view = next;
  }
  return parts;
}

test("messages become parts, and --json lines with names that stay", () => {
  const toolCall = { toolCallId: "c1", tool: "read", execIds: ["e1"], outcome: ToolOutcome.DENIED };
  const failure = {
    kind: FailureKind.CONTEXT_TOO_LONG,
    message: "too long",
    providerStatus: 0,
    retryAfterMs: undefined,
  };
  const argsJson = { content: { case: "inline", value: utf8('{"path":"x"}') } } as const;
  const parts = partsOf([
    { case: "textDelta", value: { text: "a" } },
    { case: "stepStarted", value: { step: 2, model: "m" } },
    { case: "stepRestarted", value: { step: 2, attempt: 1, rollbackToEventId: "1" } },
    {
      case: "toolCallStarted",
      value: { toolCall: { ...toolCall, argsJson, outcome: ToolOutcome.UNSPECIFIED } },
    },
    { case: "shellOutputDelta", value: { execId: "e1", output: { case: "stderr", value: utf8("x") } } },
    { case: "toolCallDelta", value: { toolCallId: "c1", text: "half" } },
    { case: "toolCallCompleted", value: { toolCall } },
    { case: "summary", value: { text: "all" } },
    { case: "heartbeat", value: {} },
    { case: "turnEnded", value: {} },
  ]);
  assert.deepEqual(parts.map(jsonOf), [
    { type: "text", text: "a" },
    { type: "step_started", step: 2, model: "m" },
    { type: "step_restarted", step: 2, attempt: 1 },
    { type: "tool_started", toolCallId: "c1", tool: "read", args: { path: "x" } },
    { type: "tool_output", execId: "e1", stream: "stderr", text: "x" },
    { type: "tool_progress", toolCallId: "c1", text: "half" },
    { type: "tool_ended", toolCallId: "c1", tool: "read", outcome: "denied", result: "" },
    { type: "summary", text: "all" },
  ]);
  const items = [{ id: "1", text: "tea", status: TodoStatus.CANCELLED }];
  assert.deepEqual(jsonOf({ type: "todos", items }), {
    type: "todos",
    items: [{ text: "tea", status: "cancelled" }],
  });
  const end = { reason: "failed", failure, error: undefined, usage: USAGE, text: "" } as const;
  assert.equal(failureOf(end, "")?.kind, "context_too_long");
});

test("a turn that began before is told from its view, in short, and goes on where it stood", () => {
  const updates: readonly Update[] = [
    { case: "userMessageAppended", value: { userMessage: { text: "hi" } } },
    { case: "stepStarted", value: { step: 0, model: "m" } },
    { case: "textDelta", value: { text: "x".repeat(5_000) } },
    { case: "toolCallStarted", value: { toolCall: { toolCallId: "c1", tool: "shell", execIds: ["e1"] } } },
    {
      case: "shellOutputDelta",
      value: { execId: "e1", output: { case: "stdout", value: utf8("half a line") } },
    },
  ];
  let view = emptyView();
  for (const [at, update] of updates.entries()) view = reduce(view, at + 1, updateMessage(update));
  const text = transcriptOf([...recentParts(view), output(" and the rest\n"), ended("unknown")], {
    typed: "",
  });
  assert.ok(text.length < 2_500);
  assert.match(text, /^› hi\n\n… x+\n\n● shell\n {2}│ half a line and the rest\n {2}\? unknown/);
});

test("of a long text that was said before, the end begins with a whole character", () => {
  const said: Update = { case: "textDelta", value: { text: "🙂".repeat(1_000) + "x" } };
  const begun: Update = { case: "stepStarted", value: { step: 0, model: "m" } };
  const view = [begun, said].reduce(
    (before, update, at) => reduce(before, at + 1, updateMessage(update)),
    emptyView(),
  );
  const text = transcriptOf(recentParts(view), { typed: "" });
  assert.match(text, /… (?:🙂)+x/u);
  assert.ok(text.isWellFormed());
});
