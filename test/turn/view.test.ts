import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import { bytesOfHex } from "../../src/protocol/bytes.ts";
import {
  answered,
  blobIdOf,
  decodeView,
  emptyView,
  encodeView,
  lastText,
  reduce,
  type ToolView,
  type TurnView,
} from "../../src/client/index.ts";
import {
  type AgentServerMessage,
  AgentServerMessageSchema,
  BlobKind,
  encodeChatMessage,
  TodoItemSchema,
  TodoStatus,
  ToolOutcome,
  TurnEndReason,
} from "../../src/protocol/index.ts";
import type { Update } from "../client/agent/agent-rig.ts";

const update = (message: Update): AgentServerMessage =>
  create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: { message } } });
const text = (words: string): AgentServerMessage => update({ case: "textDelta", value: { text: words } });
const utf8 = (words: string): Uint8Array => new TextEncoder().encode(words);
const inline = (words: string) => ({ content: { case: "inline" as const, value: utf8(words) } });
const set = (bytes: Uint8Array, kind: BlobKind): AgentServerMessage =>
  create(AgentServerMessageSchema, {
    message: {
      case: "kvServerMessage",
      value: {
        id: 1,
        message: {
          case: "setBlobArgs",
          value: { blobId: bytesOfHex(blobIdOf(bytes)), blobData: bytes, kind },
        },
      },
    },
  });
const started = (step: number): AgentServerMessage =>
  update({ case: "stepStarted", value: { step, model: "m" } });
const completed = (step: number): AgentServerMessage =>
  update({ case: "stepCompleted", value: { step, usage: { inputTokens: 10, outputTokens: 2 } } });
const call = (toolCallId: string, execId: string) => ({
  toolCallId,
  tool: "shell",
  argsJson: inline('{"command":"ls"}'),
  execIds: [execId],
});

/** Events from 1 on. */
const fold = (messages: readonly AgentServerMessage[], from: TurnView = emptyView()): TurnView =>
  messages.reduce((view, message) => reduce(view, view.eventId + 1, message), from);

const toolsOf = ({ parts }: TurnView): readonly ToolView[] => parts.filter((part) => part.type === "tool");

const todo = toBinary(
  TodoItemSchema,
  create(TodoItemSchema, { id: "1", text: "tea", status: TodoStatus.PENDING }),
);

/** One of everything. */
const turn: readonly AgentServerMessage[] = [
  update({ case: "userMessageAppended", value: { userMessage: { text: "hi", messageId: "m1" } } }),
  started(0),
  update({ case: "thinkingDelta", value: { text: "hm" } }),
  update({ case: "thinkingDelta", value: { text: "m" } }),
  update({ case: "thinkingCompleted", value: { durationMs: 12 } }),
  text("Let me "),
  text("look."),
  update({ case: "tokenDelta", value: { tokens: 5 } }),
  update({ case: "partialToolCall", value: { toolCallId: "c1", tool: "shell", argsJsonDelta: '{"com' } }),
  update({ case: "partialToolCall", value: { toolCallId: "c1", tool: "", argsJsonDelta: "mand" } }),
  update({ case: "toolCallStarted", value: { toolCall: call("c1", "0.0.0") } }),
  set(
    encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "Let me look." }] }),
    BlobKind.ASSISTANT_MESSAGE,
  ),
  completed(0),
  update({
    case: "shellOutputDelta",
    value: { execId: "0.0.0", output: { case: "stdout", value: utf8("a.txt\n") } },
  }),
  update({ case: "toolCallDelta", value: { toolCallId: "c1", text: "half done" } }),
  create(AgentServerMessageSchema, {
    message: {
      case: "interactionQuery",
      value: { id: 4, query: { case: "approval", value: { tool: "shell", argsJson: inline("{}") } } },
    },
  }),
  update({
    case: "toolCallCompleted",
    value: { toolCall: { ...call("c1", "0.0.0"), outcome: ToolOutcome.DONE, result: inline("a.txt") } },
  }),
  update({ case: "userMessageAppended", value: { userMessage: { text: "quick!", messageId: "m2" } } }),
  started(1),
  text("Done."),
  completed(1),
  update({ case: "summary", value: { text: "all of it" } }),
  set(todo, BlobKind.TODO),
  create(AgentServerMessageSchema, {
    message: { case: "conversationCheckpointUpdate", value: { todos: [bytesOfHex(blobIdOf(todo))] } },
  }),
  update({
    case: "turnEnded",
    value: { reason: 3, failure: { kind: 3, message: "slow down", retryAfterMs: 5 }, inputTokens: 20 },
  }),
];

test("a turn's parts stand in the order in which they came", () => {
  const view = fold(turn);
  assert.deepEqual(
    view.parts.map((part) => [part.type, part.type === "tool" ? part.result : part.text]),
    [
      ["thinking", "hmm"],
      ["text", "Let me look."],
      ["tool", "a.txt"],
      ["user", "quick!"],
      ["text", "Done."],
    ],
  );
  const [tool] = toolsOf(view);
  assert.deepEqual(
    [tool?.args, tool?.state, tool?.outcome, tool?.output, tool?.progress, tool?.execIds],
    ['{"command":"ls"}', "over", "done", "a.txt\n", ["half done"], ["0.0.0"]],
  );
  assert.deepEqual([view.step, view.model, view.tokens, view.summary], [1, "m", 5, "all of it"]);
  assert.deepEqual(
    view.todos.map(({ item }) => item?.text),
    ["tea"],
  );
  assert.equal(view.checkpointEventId, turn.length - 1);
  assert.deepEqual(view.end?.failure?.message, "slow down");
  assert.equal(view.usage.inputTokens, 20);
  assert.equal(lastText(view), "Done.");
});

test("B3: a view taken at any event, written down and read again, goes on to the same view", () => {
  const whole = fold(turn);
  for (let at = 0; at <= turn.length; at++) {
    const before = fold(turn.slice(0, at));
    const restored = decodeView(encodeView(before));
    assert.ok(restored !== undefined);
    assert.deepEqual(restored, before, `the view after ${at} events`);
    assert.deepEqual(fold(turn.slice(at), restored), whole);
  }
});

test("bytes that are no view of this format are told from one", () => {
  assert.equal(decodeView(utf8("no")), undefined);
  for (const format of [2, 4]) assert.equal(decodeView(utf8(`{"format":${format},"view":{}}`)), undefined);
});

test("a question is open until it is answered", () => {
  const asked = fold(turn.slice(0, 16));
  assert.deepEqual(
    asked.queries.map(({ query }) => query.id),
    [4],
  );
  assert.deepEqual(answered(asked, 4).queries, []);
});

test("a restarted step takes the view back to its beginning, as often as it restarts", () => {
  const restarted = (to: number, attempt: number): AgentServerMessage =>
    update({ case: "stepRestarted", value: { step: 1, rollbackToEventId: String(to), attempt } });
  const before = fold([started(0), text("a"), completed(0), started(1)]);
  const call1 = update({
    case: "partialToolCall",
    value: { toolCallId: "x", tool: "t", argsJsonDelta: "{" },
  });
  const once = fold([text("wrong"), call1, restarted(4, 1)], before);
  assert.deepEqual(once.parts, before.parts);
  const twice = fold([text("wrong again"), restarted(7, 2), text("right")], once);
  assert.deepEqual(
    twice.parts.map((part) => ("text" in part ? part.text : "")),
    ["a", "right"],
  );
  assert.deepEqual([twice.restarts, twice.step, twice.eventId], [2, 1, 10]);
  const done = fold([completed(1), restarted(1, 1)], twice);
  assert.equal(done.parts.length, 2, "a step that is complete is not rolled back");
});

test("A8: a provider's id that comes again in a later step is another call", () => {
  const view = fold([
    started(0),
    update({ case: "toolCallStarted", value: { toolCall: call("same", "0.0.0") } }),
    update({
      case: "toolCallCompleted",
      value: { toolCall: { ...call("same", "0.0.0"), outcome: ToolOutcome.DONE } },
    }),
    started(1),
    update({ case: "toolCallStarted", value: { toolCall: call("same", "1.0.0") } }),
    update({
      case: "toolCallCompleted",
      value: { toolCall: { ...call("same", "1.0.0"), outcome: ToolOutcome.DENIED } },
    }),
  ]);
  assert.deepEqual(
    toolsOf(view).map(({ outcome }) => outcome),
    ["done", "denied"],
  );
});

test("output that is cut within a character is put together again", () => {
  const bytes = utf8("größe €");
  const pieces = Array.from(bytes, (byte) =>
    update({
      case: "shellOutputDelta",
      value: { execId: "e", output: { case: "stdout", value: Uint8Array.of(byte) } },
    }),
  );
  const [own] = toolsOf(fold(pieces));
  assert.deepEqual([own?.tool, own?.output, own?.outputRest], ["shell", "größe €", ""]);
});

test("F2: of endless output the end is kept, and how much is not", () => {
  const piece = update({
    case: "shellOutputDelta",
    value: { execId: "e", output: { case: "stdout", value: utf8("x".repeat(100_000)) } },
  });
  const [tool] = toolsOf(fold(Array.from({ length: 50 }, () => piece)));
  assert.ok(tool !== undefined && tool.output.length <= 524_288);
  assert.equal(tool.output.length + tool.outputOmitted, 5_000_000);
});

test("F2: of endless output the end that is kept does not begin within a character", () => {
  const piece = update({
    case: "shellOutputDelta",
    value: { execId: "e", output: { case: "stdout", value: utf8("🙂".repeat(50_000) + "x") } },
  });
  const [tool] = toolsOf(fold(Array.from({ length: 6 }, () => piece)));
  assert.ok(tool !== undefined && tool.outputOmitted > 0 && tool.output.isWellFormed());
  assert.equal(tool.output.length + tool.outputOmitted, 600_006);
});

const answer = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "From the blob." }] });
const ended = update({ case: "turnEnded", value: { reason: 1 } });

test("an answer that was never streamed is taken from the assistant message that was set", () => {
  assert.equal(lastText(fold([set(answer, BlobKind.ASSISTANT_MESSAGE), ended])), "From the blob.");
  const afterTool = [
    started(0),
    text("Look."),
    set(answer, BlobKind.ASSISTANT_MESSAGE),
    completed(0),
    started(1),
  ];
  assert.equal(
    lastText(fold([...afterTool, set(answer, BlobKind.ASSISTANT_MESSAGE), completed(1), ended])),
    "From the blob.",
  );
});

test("an answer that was streamed is not shown twice", () => {
  const view = fold([
    started(0),
    text("Streamed."),
    set(answer, BlobKind.ASSISTANT_MESSAGE),
    completed(0),
    ended,
  ]);
  assert.equal(view.parts.length, 1);
});

test("a blob of any other kind is no answer, whatever it looks like", () => {
  for (const kind of [BlobKind.UNSPECIFIED, BlobKind.MESSAGE, BlobKind.CONTENT, BlobKind.STEP]) {
    assert.deepEqual(fold([set(answer, kind), ended]).parts, []);
  }
});

test("a hundred thousand deltas are one text", () => {
  const delta = text("word ");
  let view = fold([started(0)]);
  for (let at = 0; at < 100_000; at++) view = reduce(view, view.eventId + 1, delta);
  assert.equal(lastText(view).length, 500_000);
  assert.equal(view.parts.length, 1);
});

test("a message of a kind that is not known, and one without a body, change nothing but the event id", () => {
  const before = fold(turn.slice(0, 7));
  const nothing = [
    create(AgentServerMessageSchema),
    create(AgentServerMessageSchema, { message: { case: "execServerMessage", value: { execId: "e" } } }),
    create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: {} } }),
    update({ case: "heartbeat", value: {} }),
    update({ case: "userMessageAppended", value: {} }),
    update({ case: "toolCallStarted", value: {} }),
    update({ case: "thinkingDelta", value: { text: "" } }),
    update({ case: "textDelta", value: { text: "" } }),
    update({ case: "toolCallDelta", value: { toolCallId: "of nobody", text: "x" } }),
    update({ case: "shellOutputDelta", value: { execId: "e" } }),
    create(AgentServerMessageSchema, {
      message: { case: "kvServerMessage", value: { message: { case: "getBlobArgs", value: {} } } },
    }),
    set(utf8("no todo"), BlobKind.TODO),
  ];
  const after = fold(nothing, before);
  assert.deepEqual(
    after.parts.filter(({ type }) => type !== "thinking"),
    before.parts.filter(({ type }) => type !== "thinking"),
  );
  assert.equal(after.eventId, before.eventId + nothing.length);
  assert.deepEqual(fold([update({ case: "thinkingCompleted", value: { durationMs: 1 } })]).parts, []);
});

test("an assistant message that cannot be read, or says nothing, is no answer", () => {
  const silent = encodeChatMessage({ role: "assistant", content: [] });
  const users = encodeChatMessage({ role: "user", content: [{ type: "text", text: "hi" }] });
  for (const bytes of [utf8("{"), silent, users]) {
    assert.equal(lastText(fold([set(bytes, BlobKind.ASSISTANT_MESSAGE), ended])), "");
  }
});

test("each outcome of a call has its name, and one of a newer server is unknown", () => {
  const outcomes = [
    ToolOutcome.DONE,
    ToolOutcome.FAILED,
    ToolOutcome.DENIED,
    ToolOutcome.ABORTED,
    ToolOutcome.UNKNOWN,
    ToolOutcome.UNSPECIFIED,
  ];
  const view = fold(
    outcomes.map((outcome, at) =>
      update({ case: "toolCallCompleted", value: { toolCall: { ...call(`c${at}`, `e${at}`), outcome } } }),
    ),
  );
  assert.deepEqual(
    toolsOf(view).map(({ outcome }) => outcome),
    ["done", "failed", "denied", "aborted", "unknown", "unknown"],
  );
});

test("an attachment names its blob, and what the client said itself is not said twice", () => {
  const blobId = bytesOfHex(blobIdOf(utf8("a picture")));
  const file = {
    mediaType: "image/png",
    fileName: "a.png",
    content: { content: { case: "blobId", value: blobId } },
  } as const;
  const said = { text: "look", messageId: "m1", attachments: [file] };
  const once = fold([update({ case: "userMessageAppended", value: { userMessage: said } })]);
  assert.deepEqual(once.userMessages[0]?.attachments[0]?.blobId, blobIdOf(utf8("a picture")));
  assert.equal(
    fold([update({ case: "userMessageAppended", value: { userMessage: said } })], once).userMessages.length,
    1,
  );
  const unnamed = update({ case: "userMessageAppended", value: { userMessage: { text: "hi" } } });
  assert.equal(fold([unnamed, unnamed]).userMessages.length, 1);
});

test("a turn that was stopped, and one that failed without a reason, say so", () => {
  const endOf = (reason: TurnEndReason) => fold([update({ case: "turnEnded", value: { reason } })]).end;
  assert.deepEqual(endOf(TurnEndReason.ABORTED), { reason: "aborted", failure: undefined });
  assert.deepEqual(endOf(TurnEndReason.FAILED)?.failure, {
    kind: 0,
    message: "",
    providerStatus: 0,
    retryAfterMs: undefined,
  });
});

test("a roll-back to an event that is still to come is not obeyed", () => {
  const ahead = update({ case: "stepRestarted", value: { step: 0, attempt: 1, rollbackToEventId: "99" } });
  assert.equal(lastText(fold([started(0), text("stays"), ahead])), "stays");
});

test("output that is no text is shown as far as it goes", () => {
  const output = (value: Uint8Array) =>
    update({ case: "shellOutputDelta", value: { execId: "e", output: { case: "stderr", value } } });
  const [own] = toolsOf(
    fold([
      output(Uint8Array.of(0x80, 0x80, 0x80, 0x80)),
      output(utf8("é")),
      output(Uint8Array.of(0xf0, 0x9f)),
    ]),
  );
  assert.deepEqual([own?.output.endsWith("é"), own?.outputRest], [true, "f09f"]);
});

test("a late todo and an answered question are also known after a roll-back", () => {
  const asked = fold(turn.slice(0, 16));
  const open = fold([started(1)], asked);
  const back = fold(
    [update({ case: "stepRestarted", value: { step: 1, attempt: 1, rollbackToEventId: "1" } })],
    answered(open, 4),
  );
  assert.deepEqual(back.queries, []);
});
