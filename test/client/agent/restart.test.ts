/**
 * A client that dies in the middle of a turn, and what the next one makes of it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import type { ConversationRecord, OnQuery, Turn } from "../../../src/client/index.ts";
import { BlobKind, encodeChatMessage, UserMessageSchema } from "../../../src/protocol/index.ts";
import { turn as nextTurn, until } from "../../e2e/rig.ts";
import { AgentRig, newDisk, scripted, type Talk } from "./agent-rig.ts";

const answerOf = (text: string): Uint8Array =>
  encodeChatMessage({ role: "assistant", content: [{ type: "text", text }] });

const askQuestion = (talk: Talk, id: number): Promise<number> =>
  talk.send({
    case: "interactionQuery",
    value: { id, query: { case: "askQuestion", value: { questions: [{ id: "q", text: "why?" }] } } },
  });

const responseTo = (talk: Talk, id: number): Promise<string> =>
  talk.until((message) =>
    message.case === "interactionResponse" && message.value.id === id
      ? (message.value.response.case ?? "nothing")
      : undefined,
  );

const yes: OnQuery = async () => ({ case: "askQuestion", value: { answers: [] } });

/** A step, a question, and as soon as the test lets it, the rest. */
function script(go: Promise<void>, talks: Talk[]) {
  return scripted(async (talk) => {
    talks.push(talk);
    await talk.update({
      case: "userMessageAppended",
      value: { userMessage: create(UserMessageSchema, { text: "hi" }) },
    });
    await talk.update({ case: "stepStarted", value: { step: 0 } });
    await talk.text("first, ");
    const first = await talk.keep(answerOf("first, "), BlobKind.ASSISTANT_MESSAGE);
    await talk.update({ case: "stepCompleted", value: { step: 0, usage: { outputTokens: 1 } } });
    await askQuestion(talk, 1);
    await responseTo(talk, 1);
    await talk.checkpoint({ messages: [first] });
    await talk.update({ case: "stepStarted", value: { step: 1 } });
    await talk.text("then ");
    await go;
    await talk.text("last");
    const last = await talk.keep(answerOf("then last"), BlobKind.ASSISTANT_MESSAGE);
    await talk.update({ case: "stepCompleted", value: { step: 1, usage: { outputTokens: 1 } } });
    await talk.checkpoint({ messages: [first, last] });
    await talk.end();
  });
}

const textsOf = (turn: Turn): readonly string[] =>
  turn.view.parts.map((part) => (part.type === "text" ? part.text : part.type));

test("B3: a restarted client shows the turn as it was, asks nothing twice, and goes on", async (t) => {
  const go = Promise.withResolvers<void>();
  const talks: Talk[] = [];
  const rig = await AgentRig.start(t, script(go.promise, talks));
  const disk = newDisk();
  const dying = rig.process(disk, { onQuery: yes });
  const begun = await dying.conversations.begin();
  const before = await begun.send({ text: "hi" });
  await until(() => textsOf(before).at(-1) === "then ", "the second step has begun");
  await nextTurn();
  dying.kill();

  const asked: number[] = [];
  const restarted = rig.process(disk, {
    onQuery: async ({ id }, turn, signal) => {
      asked.push(id);
      return yes(turn.view.queries[0]?.query ?? assert.fail(), turn, signal);
    },
  });
  const resumed: Turn[] = [];
  const { turns, strays } = await restarted.conversations.resumeAll((turn) => void resumed.push(turn));
  const [turn] = turns;
  assert.ok(turn !== undefined && strays.length === 0);
  assert.deepEqual(resumed, [turn]);
  assert.equal(turn.view.parts[0]?.type === "text" ? turn.view.parts[0].text : "", "first, ");
  assert.ok((turn.stream.restored?.cursor ?? 0) > 0, "it begins at its last snapshot");
  go.resolve();
  const { reason, text } = await turn.ended;
  assert.deepEqual([reason, text], ["completed", "then last"]);
  assert.deepEqual(textsOf(turn), ["first, ", "then last"]);
  assert.deepEqual(asked, []);
  assert.equal(
    talks[0]?.count(({ case: kind }) => kind === "interactionResponse"),
    1,
  );
  const conversation = await restarted.conversations.open(begun.id);
  assert.deepEqual([conversation.state?.messages.length, conversation.record.turn], [2, undefined]);
});

test("a question that was open when the client died is asked again, and answered once", async (t) => {
  const talks: Talk[] = [];
  const rig = await AgentRig.start(t, script(Promise.resolve(), talks));
  const disk = newDisk();
  const dying = rig.process(disk, { onQuery: async () => undefined });
  const before = await (await dying.conversations.begin()).send({ text: "hi" });
  await until(() => before.view.queries.length === 1, "it is asked");
  dying.kill();
  const asked: number[] = [];
  const restarted = rig.process(disk, {
    onQuery: async (query, turn, signal) => {
      asked.push(query.id);
      return yes(query, turn, signal);
    },
  });
  const conversation = await restarted.conversations.open(before.conversationId);
  const turn = await conversation.resume();
  assert.equal((await turn?.ended)?.reason, "completed");
  assert.deepEqual(asked, [1]);
  assert.equal(
    talks[0]?.count(({ case: kind }) => kind === "interactionResponse"),
    1,
  );
});

test("a turn that ended before its last checkpoint was kept is read to its end", async (t) => {
  const talks: Talk[] = [];
  const rig = await AgentRig.start(t, script(Promise.resolve(), talks));
  const disk = newDisk();
  // A disk that is too slow for the last checkpoint: the stream ends, and then the process dies.
  const stuck = new Promise<never>(() => undefined);
  let checkpoints = 0;
  const isLast = ({ checkpoint }: ConversationRecord): boolean =>
    checkpoint !== undefined && ++checkpoints > 1;
  const slow = {
    ...disk,
    stores: {
      ...disk.stores,
      records: {
        ...disk.stores.records,
        put: (record: ConversationRecord) => (isLast(record) ? stuck : disk.stores.records.put(record)),
      },
    },
  };
  const dying = rig.process(slow, { onQuery: yes });
  const before = await (await dying.conversations.begin()).send({ text: "hi" });
  assert.equal(await before.stream.ended, "completed");
  dying.kill();
  const restarted = rig.process(disk);
  const { turns, report } = await restarted.conversations.resumeAll();
  assert.deepEqual(report.cleared, [before.stream.idempotencyKey]);
  const [turn] = turns;
  assert.equal(turn?.role, "reader");
  assert.equal((await turn.ended).text, "then last");
  const conversation = await restarted.conversations.open(before.conversationId);
  assert.deepEqual([conversation.state?.messages.length, conversation.record.turn], [2, undefined]);
});

test("D7: a turn that is too old to go on by itself is left to its conversation, which resumes it", async (t) => {
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(t, script(go.promise, []));
  const disk = newDisk();
  const dying = rig.process(disk, { onQuery: yes });
  const before = await (await dying.conversations.begin()).send({ text: "hi" });
  await until(() => textsOf(before).at(-1) === "then ", "it speaks");
  dying.kill();
  const lastSeenMs = Date.now();
  await until(() => Date.now() > lastSeenMs + 5, "the window is over");

  const late = rig.process(disk, { onQuery: yes, retryLookbackWindowMs: 1 });
  const seen: Turn[] = [];
  const { turns, report } = await late.conversations.resumeAll((turn) => void seen.push(turn));
  assert.deepEqual([turns, report.resumed, report.cleared, report.aborted], [[], [], [], []]);
  assert.deepEqual(
    report.kept.map(({ idempotencyKey }) => idempotencyKey),
    [before.stream.idempotencyKey],
  );
  assert.equal((await seen[0]?.ended)?.reason, "left");
  const conversation = await late.conversations.open(before.conversationId);
  const turn = await conversation.resume();
  go.resolve();
  assert.deepEqual([turn?.role, (await turn?.ended)?.text], ["writer", "then last"]);
  assert.deepEqual([conversation.state?.messages.length, conversation.record.turn], [2, undefined]);
});

test("a turn whose stream is gone says so, and the conversation goes on", async (t) => {
  const rig = await AgentRig.start(t, script(Promise.resolve(), []));
  const disk = newDisk();
  const { conversations } = rig.process(disk, { onQuery: yes });
  const begun = await conversations.begin();
  await (
    await begun.send({ text: "hi" })
  ).ended;
  const record = await disk.stores.records.get(begun.id);
  assert.ok(record !== undefined);
  const turn = {
    idempotencyKey: "gone",
    startedMs: 0,
    kind: "message" as const,
    checkpointEventId: 0,
    turnsBefore: 0,
    messagesBefore: 0,
  };
  await disk.stores.records.put({ ...record, turn });
  const conversation = await rig.process(disk, { onQuery: yes }).conversations.open(begun.id);
  const resumed = await conversation.resume();
  const end = await resumed?.ended;
  assert.deepEqual([end?.reason, end?.error?.code], ["lost", "not_found"]);
  assert.equal(conversation.record.turn, undefined);
  assert.equal((await (await conversation.send({ text: "hi" })).ended).reason, "completed");
});

test("D2: a second process looks at a turn that another one has, and keeps nothing of it", async (t) => {
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(t, script(go.promise, []));
  const disk = newDisk();
  const held = new Set<string>();
  const writerLocks = {
    acquire: async (idempotencyKey: string) => {
      if (held.has(idempotencyKey)) return { kind: "held" as const, holder: "process 1" };
      held.add(idempotencyKey);
      return { kind: "acquired" as const, release: () => void held.delete(idempotencyKey) };
    },
  };
  const first = rig.process(disk, { onQuery: yes, writerLocks });
  const writing = await (await first.conversations.begin()).send({ text: "hi" });
  const second = rig.process(disk, { onQuery: yes, writerLocks });
  const looking = await (await second.conversations.open(writing.conversationId)).resume();
  assert.equal(looking?.role, "reader");
  go.resolve();
  assert.deepEqual([(await looking.ended).text, (await writing.ended).text], ["then last", "then last"]);
  assert.equal((await first.conversations.open(writing.conversationId)).record.lastTurn?.reason, "completed");
});

test("a client that is closed leaves its turn, and goes on with it later", async (t) => {
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(t, script(go.promise, []));
  const disk = newDisk();
  const first = rig.process(disk, { onQuery: yes });
  const left = await (await first.conversations.begin()).send({ text: "hi" });
  await until(() => textsOf(left).at(-1) === "then ", "it speaks");
  await first.client.close();
  assert.equal((await left.ended).reason, "left");
  const conversation = await rig.process(disk, { onQuery: yes }).conversations.open(left.conversationId);
  assert.ok(conversation.record.turn !== undefined);
  go.resolve();
  assert.equal((await (await conversation.resume())?.ended)?.text, "then last");
  assert.equal(conversation.state?.messages.length, 2);
});
