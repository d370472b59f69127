/**
 * The transcript of a turn: the same happenings always read the same.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { emptyView, reduce } from "../../src/client/index.ts";
import { type Happening, happeningOf } from "../../src/cli/chat/happening.ts";
import { jsonOf } from "../../src/cli/chat/json-line.ts";
import { styleOf } from "../../src/cli/chat/style.ts";
import { Transcript } from "../../src/cli/chat/transcript.ts";
import { happeningsOfView } from "../../src/cli/chat/view-happenings.ts";
import {
  AgentServerMessageSchema,
  FailureKind,
  InteractionUpdateSchema,
  ToolOutcome,
  TurnEndReason,
} from "../../src/protocol/messages.ts";

const USAGE = {
  inputTokens: 1_200,
  outputTokens: 34,
  cacheReadTokens: 900,
  cacheWriteTokens: 0,
  reasoningTokens: 5,
};
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function transcriptOf(
  happenings: readonly Happening[],
  { columns = 60, showsThinking = true, typed = "hi" } = {},
) {
  const screen = { isTTY: true, columns, write: () => undefined };
  const times = [0, 2_500];
  const transcript = new Transcript({
    style: styleOf(screen, { NO_COLOR: "1" }),
    showsThinking,
    typed,
    now: () => times.shift() ?? 2_500,
  });
  return happenings.map((happening) => transcript.render(happening)).join("");
}

const SHELL = {
  kind: "tool_started",
  toolCallId: "c1",
  tool: "shell",
  args: '{"command":"npm test"}',
  execIds: ["e1"],
} as const;
const output = (text: string, execId = "e1"): Happening => ({
  kind: "output",
  execId,
  bytes: utf8(text),
  stream: "stdout",
});
const ended = (outcome: "done" | "failed" | "denied" | "aborted" | "unknown", result = ""): Happening => ({
  kind: "tool_ended",
  toolCallId: "c1",
  tool: "shell",
  outcome,
  result,
});

test("a whole turn: thinking, text, a tool with its output, usage", () => {
  const text = transcriptOf([
    { kind: "user", text: "hi" },
    { kind: "step_started", step: 0, model: "rehearsal/rehearsal" },
    { kind: "thinking", text: "Let me " },
    { kind: "thinking", text: "see." },
    { kind: "text", text: "\nI run " },
    { kind: "text", text: "the tests." },
    SHELL,
    output("ok 1\nok"),
    output(" 2\n"),
    ended("done", "exit code 0"),
    { kind: "text", text: "All is well.\n" },
    { kind: "ended", reason: "completed", failure: undefined, usage: USAGE },
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
  const piece = (bytes: Uint8Array): Happening => ({ kind: "output", execId: "e1", bytes, stream: "stdout" });
  assert.match(transcriptOf([SHELL, piece(first), piece(second), ended("done")]), /│ é\n/);
});

test("every outcome of a tool has its words; unknown says what is known", () => {
  assert.match(transcriptOf([SHELL, ended("failed", "exit code 1\nboom")]), /│ boom\n {2}✗ failed\n$/);
  assert.match(transcriptOf([SHELL, ended("denied", "no")]), /⊘ denied\n$/);
  assert.match(transcriptOf([SHELL, ended("aborted")]), /■ aborted\n$/);
  assert.match(
    transcriptOf([SHELL, ended("unknown")]),
    /\? unknown: it was started, and nobody knows how it ended\n$/,
  );
});

test("tools that run at the same time say who speaks", () => {
  const other = { ...SHELL, toolCallId: "c2", args: '{"command":"make"}', execIds: ["e2"] };
  const text = transcriptOf([
    SHELL,
    other,
    output("one\n"),
    output("two\n", "e2"),
    output("three\n", "e2"),
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
  const call = { ...SHELL, tool: "subagent", args: '{"description":"look around","prompt":"..."}' };
  const text = transcriptOf([call, { kind: "progress", toolCallId: "c1", text: "step 1\nread a.txt" }]);
  assert.equal(text, "● subagent  look around\n    step 1\n    read a.txt\n");
});

test("a restarted step is said to be void, thinking can be hidden, queued messages are shown", () => {
  const text = transcriptOf(
    [
      { kind: "user", text: "hi" },
      { kind: "thinking", text: "secret" },
      { kind: "text", text: "Half an ans" },
      { kind: "step_restarted", step: 0, attempt: 1 },
      { kind: "text", text: "A whole answer." },
      { kind: "user", text: "and now?" },
    ],
    { showsThinking: false, columns: 200 },
  );
  assert.doesNotMatch(text, /secret|› hi/);
  assert.match(
    text,
    /Half an ans\n\n↻ .*void \(restart 1 of at most 3\)\n\nA whole answer\.\n\n› and now\?\n$/,
  );
});

test("a failed turn says what failed and what to do", () => {
  const failure = { kind: "rate_limited", message: "Too many requests.", retryAfterMs: 20_000 };
  const text = transcriptOf([{ kind: "ended", reason: "failed", failure, usage: USAGE }]);
  assert.match(
    text,
    /Failed \(rate_limited\): Too many requests \(it asks to wait 20\.0 s\); wait a little, then \/continue\.\n/,
  );
});

test("a summary is shown once, whether or not the model has just written it", () => {
  const summary: Happening = { kind: "summary", text: "Much was said." };
  const written = transcriptOf([
    { kind: "text", text: "Much was" },
    { kind: "text", text: " said.\n" },
    summary,
  ]);
  assert.equal(written, "Much was said.\n\nThis stands for everything before it now.\n");
  assert.equal(transcriptOf([summary]), "Summary of what was said before:\nMuch was said.\n");
});

test("todos stand with how far they are", () => {
  const items = [
    { text: "first", status: "completed" },
    { text: "second", status: "in_progress" },
    { text: "third\u001b[2J", status: "pending" },
  ] as const;
  assert.equal(transcriptOf([{ kind: "todos", items }]), "  ☑ first\n  ◐ second\n  ☐ third\\u{1b}[2J\n");
});

type Update = NonNullable<Parameters<typeof create<typeof InteractionUpdateSchema>>[1]>["message"];
const update = (message: Update) => create(InteractionUpdateSchema, message === undefined ? {} : { message });

test("messages become happenings, and --json lines with names that stay", () => {
  const toolCall = { toolCallId: "c1", tool: "read", execIds: ["e1"], outcome: ToolOutcome.DENIED };
  const failure = { kind: FailureKind.CONTEXT_TOO_LONG, message: "too long" };
  const cases: readonly (readonly [Update, object | undefined])[] = [
    [
      { case: "textDelta", value: { text: "a" } },
      { type: "text", text: "a" },
    ],
    [
      { case: "stepStarted", value: { step: 2, model: "m" } },
      { type: "step_started", step: 2, model: "m" },
    ],
    [
      {
        case: "toolCallStarted",
        value: {
          toolCall: { ...toolCall, argsJson: { content: { case: "inline", value: utf8('{"path":"x"}') } } },
        },
      },
      { type: "tool_started", toolCallId: "c1", tool: "read", args: { path: "x" } },
    ],
    [
      { case: "toolCallCompleted", value: { toolCall } },
      { type: "tool_ended", toolCallId: "c1", tool: "read", outcome: "denied", result: "" },
    ],
    [
      { case: "shellOutputDelta", value: { execId: "e1", output: { case: "stderr", value: utf8("x") } } },
      { type: "tool_output", execId: "e1", stream: "stderr", text: "x" },
    ],
    [{ case: "heartbeat", value: {} }, undefined],
    [undefined, undefined],
  ];
  for (const [message, json] of cases) {
    const happening = happeningOf(update(message));
    assert.deepEqual(happening === undefined ? undefined : jsonOf(happening), json);
  }
  const end = happeningOf(update({ case: "turnEnded", value: { reason: TurnEndReason.FAILED, failure } }));
  assert.ok(end?.kind === "ended" && end.failure?.kind === "context_too_long");
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
  for (const [at, message] of updates.entries()) {
    const value = update(message);
    const event = create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value } });
    view = reduce(view, at + 1, event);
  }
  const text = transcriptOf([...happeningsOfView(view), output(" and the rest\n"), ended("unknown")], {
    typed: "",
  });
  assert.ok(text.length < 2_500);
  assert.match(text, /^› hi\n\n… x+\n\n● shell\n {2}│ half a line and the rest\n {2}\? unknown/);
});
