import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary } from "../../../src/protocol/message.ts";
import { bytesOfHex, hexOf } from "../../../src/protocol/bytes.ts";
import { continued, type CutOffTurn } from "../../../src/client/agent/interrupted.ts";
import { EMPTY_TOOL } from "../../../src/turn/tool-view.ts";
import { EMPTY_VIEW, type TurnView } from "../../../src/turn/view.ts";
import { blobIdOf } from "../../../src/client/index.ts";
import {
  type ChatMessage,
  ConversationStateSchema,
  decodeChatMessage,
  encodeChatMessage,
  idsIn,
  TurnBlobSchema,
} from "../../../src/protocol/index.ts";

const user = (text: string): ChatMessage => ({ role: "user", content: [{ type: "text", text }] });
const assistant = (text: string, ...calls: readonly string[]): ChatMessage => ({
  role: "assistant",
  content: [
    { type: "text", text },
    ...calls.map((toolCallId) => ({ type: "tool-call" as const, toolCallId, tool: "read", args: "{}" })),
  ],
});
const keep = (message: ChatMessage, isNamed = false) => ({
  blobId: blobIdOf(encodeChatMessage(message)),
  message,
  isNamed,
});
const idOf = (message: ChatMessage): Uint8Array => bytesOfHex(keep(message).blobId);

const view = (changes: Partial<TurnView>): TurnView => ({
  ...EMPTY_VIEW,
  userMessages: [{ text: "do it", messageId: "1", attachments: [] }],
  ...changes,
});

/** The messages that a turn adds, as text or as what they are made of. */
function added(turn: Partial<CutOffTurn>): readonly ChatMessage[] {
  const state = turn.state ?? create(ConversationStateSchema);
  const known = new Map(turn.kept?.map(({ blobId, message }) => [blobId, message]));
  const next = continued({ state, turnsBefore: state.turns.length, kept: [], view: view({}), ...turn });
  if (next === undefined) return [];
  const messages = next.state.messages.map(hexOf);
  assert.deepEqual(messages.slice(0, state.messages.length), state.messages.map(hexOf), "a strict prefix");
  const blobs = new Map(next.blobs.map(({ id, bytes }) => [id, bytes]));
  for (const [id, bytes] of blobs) assert.equal(blobIdOf(bytes), id);
  return messages.slice(state.messages.length).map((id) => {
    const bytes = blobs.get(id);
    return known.get(id) ?? decodeChatMessage(bytes ?? new Uint8Array());
  });
}

test("a turn that was stopped before it spoke leaves what the user said", () => {
  const before = create(ConversationStateSchema, { messages: [idOf(user("a")), idOf(assistant("b"))] });
  assert.deepEqual(added({ state: before }), [user("do it")]);
});

test("the words that had come are kept as the agent's", () => {
  const parts = [{ type: "text" as const, step: 0, text: "I will" }];
  assert.deepEqual(added({ view: view({ parts }) }), [user("do it"), assistant("I will")]);
});

test("a call without a result gets one, and one with a result keeps it", () => {
  const step = assistant("Let me see.", "c1", "c2");
  const parts = [
    { type: "text" as const, step: 0, text: "Let me see." },
    { ...EMPTY_TOOL, toolCallId: "c1", state: "over" as const, outcome: "done" as const, result: "found" },
    { ...EMPTY_TOOL, toolCallId: "c2", state: "running" as const },
  ];
  const messages = added({ kept: [keep(user("do it")), keep(step)], view: view({ parts, savedParts: 3 }) });
  assert.deepEqual(messages.slice(0, 2), [user("do it"), step]);
  const last = messages[2];
  assert.ok(last?.role === "tool" && messages.length === 3);
  assert.deepEqual(
    last.content.map(({ toolCallId, outcome }) => [toolCallId, outcome]),
    [
      ["c1", "done"],
      ["c2", "aborted"],
    ],
  );
});

test("what a checkpoint of the turn has is not said again", () => {
  const kept = [keep(user("do it"), true), keep(assistant("one"), true)];
  const state = create(ConversationStateSchema, {
    messages: kept.map(({ blobId }) => bytesOfHex(blobId)),
    turns: [new Uint8Array(32)],
  });
  const all = view({ parts: [{ type: "text", step: 0, text: "one" }], savedParts: 1 });
  assert.equal(continued({ state, turnsBefore: 0, kept, view: all }), undefined);
  const more = view({ ...all, parts: [...all.parts, { type: "text", step: 1, text: "two" }] });
  assert.deepEqual(added({ state, turnsBefore: 0, kept, view: more }), [assistant("two")]);
});

test("what was said while the turn ran follows what the agent had done", () => {
  const kept = [keep(user("do it")), keep(assistant("one"))];
  const said = { text: "faster", messageId: "2", attachments: [] };
  const both = view({ savedParts: 1, parts: [{ type: "text", step: 0, text: "one" }] });
  const messages = added({ kept, view: { ...both, userMessages: [...both.userMessages, said] } });
  assert.deepEqual(messages, [user("do it"), assistant("one"), user("faster")]);
});

test("the turn is shown with everything that came of it, in the place of an earlier account of it", () => {
  const state = create(ConversationStateSchema, { turns: [new Uint8Array(32), new Uint8Array(32).fill(1)] });
  const parts = [
    { type: "thinking" as const, step: 0, text: "hm", durationMs: undefined },
    { ...EMPTY_TOOL, tool: "shell", state: "running" as const, args: "{}" },
    { type: "user" as const, text: "now", messageId: "2" },
    { type: "text" as const, step: 0, text: "so" },
  ];
  const next = continued({ state, turnsBefore: 1, kept: [], view: view({ parts }) });
  assert.ok(next !== undefined);
  const [first, second, ...others] = next.state.turns;
  assert.deepEqual([first, others.length], [new Uint8Array(32), 0]);
  const bytes = next.blobs.find(({ id }) => id === hexOf(second ?? new Uint8Array()))?.bytes;
  const { turn } = fromBinary(TurnBlobSchema, bytes ?? new Uint8Array());
  assert.ok(turn.case === "agentTurn");
  assert.equal(turn.value.steps.length, 4);
  for (const step of turn.value.steps) assert.ok(next.blobs.some(({ id }) => id === hexOf(step)));
});

test("with full pages the ids in them stay there, new ones fill the next, and the last turn is still replaced", () => {
  const pages = [{ page: new Uint8Array(32).fill(9), count: 16 }];
  const some = (count: number) => Array.from({ length: count }, (_, at) => new Uint8Array(32).fill(at + 20));
  const state = create(ConversationStateSchema, {
    messagePages: pages,
    messages: some(16),
    turnPages: pages,
    turns: some(1),
  });
  const parts = [{ type: "text" as const, step: 0, text: "so" }];
  const next = continued({ state, turnsBefore: 16, kept: [], view: view({ parts }) });
  assert.ok(next !== undefined);
  const { messagePages, messages, turnPages, turns } = next.state;
  assert.deepEqual([messagePages.length, messages.length], [2, 2]);
  const page = next.blobs.find(({ id }) => id === hexOf(messagePages[1]?.page ?? new Uint8Array()));
  assert.deepEqual(page === undefined ? [] : idsIn(page.bytes), some(16));
  assert.deepEqual([turnPages, turns.length], [state.turnPages, 1]);
  assert.notDeepEqual(turns, state.turns);
});

test("a turn without words leaves nothing", () => {
  const silent = { ...EMPTY_VIEW };
  assert.equal(
    continued({ state: create(ConversationStateSchema), turnsBefore: 0, kept: [], view: silent }),
    undefined,
  );
});
