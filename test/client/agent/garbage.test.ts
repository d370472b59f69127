import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../../src/protocol/message.ts";
import { bytesOfHex } from "../../../src/protocol/bytes.ts";
import { collectGarbage } from "../../../src/client/agent/garbage.ts";
import { fullConversation } from "../../../src/client/agent/full-conversation.ts";
import {
  blobIdOf,
  type ClientStores,
  type ConversationRecord,
  memoryBlobStore,
  memoryConversationStore,
} from "../../../src/client/index.ts";
import {
  type ConversationState,
  ConversationStateSchema,
  encodeChatMessage,
  ShellCommandActionSchema,
  ShellSuccessSchema,
  StepBlobSchema,
  TodoItemSchema,
  TurnBlobSchema,
  UserMessageSchema,
} from "../../../src/protocol/index.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const blob = (id: Uint8Array) => ({ content: { case: "blobId" as const, value: id } });

/** A disk with a clock that the test moves. */
class Disk implements ClientStores {
  nowMs = 1_000;
  readonly blobs = memoryBlobStore(() => this.nowMs);
  readonly records = memoryConversationStore();

  async put(bytes: Uint8Array): Promise<Uint8Array> {
    await this.blobs.put(blobIdOf(bytes), bytes);
    return bytesOfHex(blobIdOf(bytes));
  }

  async ids(): Promise<readonly string[]> {
    const ids: string[] = [];
    for await (const { id } of this.blobs.list()) ids.push(id);
    return ids;
  }

  collect(graceMs = 100) {
    return collectGarbage({ blobs: this.blobs, records: this.records, nowMs: this.nowMs, graceMs });
  }

  record(
    checkpoint?: ConversationState,
    more: Partial<ConversationRecord> = {},
  ): Promise<ConversationRecord> {
    return this.records.put({
      conversationId: "c",
      title: "",
      model: "",
      createdMs: 0,
      updatedMs: 0,
      version: 0,
      ...(checkpoint === undefined ? {} : { checkpoint: toBinary(ConversationStateSchema, checkpoint) }),
      ...more,
    });
  }
}

/** A conversation with every kind of blob in it. */
async function everything(disk: Disk): Promise<ConversationState> {
  const [file, picture, args, result, screenshot, stdout, summary] = await Promise.all(
    ["file", "picture", "args", "result", "screenshot", "stdout", "summary"].map((text) =>
      disk.put(utf8(text)),
    ),
  );
  assert.ok(file && picture && args && result && screenshot && stdout && summary);
  const message = encodeChatMessage({
    role: "tool",
    content: [
      {
        type: "tool-result",
        toolCallId: "1",
        tool: "read",
        outcome: "done",
        text: "",
        files: [{ type: "file", mediaType: "image/png", blobId: blobIdOf(utf8("file")) }],
      },
    ],
  });
  const userMessage = create(UserMessageSchema, { text: "hi", attachments: [{ content: blob(picture) }] });
  const toolCall = { argsJson: blob(args), result: blob(result), files: [{ content: blob(screenshot) }] };
  const step = create(StepBlobSchema, { step: { case: "toolCall", value: toolCall } });
  const agent = {
    userMessage: await disk.put(toBinary(UserMessageSchema, userMessage)),
    steps: [await disk.put(toBinary(StepBlobSchema, step))],
  };
  const shell = {
    shellCommand: await disk.put(
      toBinary(ShellCommandActionSchema, create(ShellCommandActionSchema, { command: "ls" })),
    ),
    shellOutput: await disk.put(
      toBinary(ShellSuccessSchema, create(ShellSuccessSchema, { stdout: blob(stdout) })),
    ),
  };
  const agentTurn = create(TurnBlobSchema, { turn: { case: "agentTurn", value: agent } });
  const shellTurn = create(TurnBlobSchema, { turn: { case: "shellTurn", value: shell } });
  const todo = create(TodoItemSchema, { id: "1", text: "tea" });
  return create(ConversationStateSchema, {
    messages: [await disk.put(message)],
    turns: [
      await disk.put(toBinary(TurnBlobSchema, agentTurn)),
      await disk.put(toBinary(TurnBlobSchema, shellTurn)),
    ],
    todos: [await disk.put(toBinary(TodoItemSchema, todo))],
    subagentStates: [
      { state: { messages: [await disk.put(encodeChatMessage({ role: "user", content: [] }))] } },
    ],
    summary,
  });
}

test("everything that a conversation reaches stays, and nothing else that is old", async () => {
  const disk = new Disk();
  await disk.record(await everything(disk));
  const before = await disk.ids();
  await disk.put(utf8("rubbish"));
  disk.nowMs += 101;
  await disk.put(utf8("young"));
  const report = await disk.collect();
  assert.deepEqual(
    [report.deleted, report.kept, report.missing, report.unreadable],
    [1, before.length + 1, [], []],
  );
  assert.deepEqual((await disk.ids()).toSorted(), [...before, blobIdOf(utf8("young"))].toSorted());
  await disk.records.remove("c");
  disk.nowMs += 101;
  assert.equal((await disk.collect()).kept, 0);
});

test("what an open turn has set is not touched, however long it takes", async () => {
  const disk = new Disk();
  await disk.put(utf8("before"));
  disk.nowMs += 10;
  const turn = {
    idempotencyKey: "k",
    startedMs: disk.nowMs,
    kind: "message" as const,
    checkpointEventId: 0,
    turnsBefore: 0,
    messagesBefore: 0,
  };
  await disk.record(undefined, { turn });
  await disk.put(utf8("during"));
  disk.nowMs += 1e9;
  await disk.collect();
  assert.deepEqual(await disk.ids(), [blobIdOf(utf8("during"))]);
});

test("one blob that cannot be read keeps everything; one that is missing is told", async () => {
  const disk = new Disk();
  const missing = new Uint8Array(32).fill(1);
  const turns = [await disk.put(utf8("this is no turn")), missing];
  await disk.record(create(ConversationStateSchema, { turns }));
  await disk.put(utf8("rubbish"));
  disk.nowMs += 101;
  const report = await disk.collect();
  assert.deepEqual([report.deleted, report.unreadable.length, report.missing.length], [0, 1, 1]);
  assert.equal((await disk.ids()).length, 2);
});

test("a blob that is put again while the clean-up looks is spared", async () => {
  const disk = new Disk();
  await disk.put(utf8("again"));
  disk.nowMs += 101;
  const { records } = disk;
  const list = async () => {
    await disk.put(utf8("again"));
    return records.list();
  };
  const report = await collectGarbage({
    nowMs: disk.nowMs,
    blobs: disk.blobs,
    records: { ...records, list },
    graceMs: 100,
  });
  assert.deepEqual([report.deleted, (await disk.ids()).length], [0, 1]);
});

test("a conversation is rebuilt from its blobs, and each one that is missing is said in its place", async () => {
  const disk = new Disk();
  const state = await everything(disk);
  const full = await fullConversation(disk.blobs, state);
  const [agent, shell] = full.turns;
  assert.ok(agent?.kind === "agent" && shell?.kind === "shell");
  assert.equal(agent.userMessage?.kind === "found" && agent.userMessage.value.text, "hi");
  assert.equal(agent.steps[0]?.kind === "found" && agent.steps[0].value.case, "toolCall");
  assert.equal(shell.command.kind === "found" && shell.command.value.command, "ls");
  assert.equal(full.todos[0]?.kind === "found" && full.todos[0].value.text, "tea");
  assert.equal(full.summary?.kind === "found" && full.summary.value, "summary");
  for await (const { id } of disk.blobs.list()) await disk.blobs.delete(id);
  const empty = await fullConversation(disk.blobs, state);
  assert.deepEqual(
    empty.turns.map(({ kind }) => kind),
    ["missing", "missing"],
  );
  assert.equal(empty.todos[0]?.kind === "missing" && empty.todos[0].reason, "not_found");
  const odd = create(ConversationStateSchema, { turns: [await disk.put(utf8("no turn"))] });
  const [unreadable] = (await fullConversation(disk.blobs, odd)).turns;
  assert.equal(unreadable?.kind === "missing" && unreadable.reason, "unreadable");
});
