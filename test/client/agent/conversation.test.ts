/**
 * Conversations over a scripted agent: turns that follow each other, blobs, checkpoints, questions, aborts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "../../../src/protocol/message.ts";
import { hexOf } from "../../../src/protocol/bytes.ts";
import { blobIdOf, type OnQuery, type Turn } from "../../../src/client/index.ts";
import {
  BlobKind,
  ConversationStateSchema,
  decodeChatMessage,
  encodeChatMessage,
  FailureKind,
  type RunRequest,
  StepBlobSchema,
  textOf,
  ToolDefinitionSchema,
  TurnBlobSchema,
  UserMessageSchema,
} from "../../../src/protocol/index.ts";
import { until } from "../../e2e/rig.ts";
import { AgentRig, newDisk, scripted, type Talk } from "./agent-rig.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function saidIn(request: RunRequest): string {
  const action = request.action?.action;
  return action?.case === "userMessageAction" ? (action.value.userMessage?.text ?? "") : (action?.case ?? "");
}

/** Answers every message by its echo, and keeps the conversation as the agent does. */
async function echo(talk: Talk): Promise<void> {
  const { request } = talk;
  const said = saidIn(request);
  const before = request.conversationState ?? create(ConversationStateSchema);
  const userMessage = create(UserMessageSchema, { text: said });
  await talk.update({ case: "userMessageAppended", value: { userMessage } });
  await talk.update({ case: "stepStarted", value: { step: 0, model: request.model } });
  await talk.text(`You said ${said}.`);
  const heard = encodeChatMessage({ role: "user", content: [{ type: "text", text: said }] });
  const answer = encodeChatMessage({
    role: "assistant",
    content: [{ type: "text", text: `You said ${said}.` }],
  });
  const step = { step: { case: "assistantMessage" as const, value: { text: `You said ${said}.` } } };
  const ids = {
    heard: await talk.keep(heard, BlobKind.MESSAGE),
    answer: await talk.keep(answer, BlobKind.ASSISTANT_MESSAGE),
    userMessage: await talk.keep(toBinary(UserMessageSchema, userMessage), BlobKind.USER_MESSAGE),
    step: await talk.keep(toBinary(StepBlobSchema, create(StepBlobSchema, step)), BlobKind.STEP),
  };
  await talk.update({
    case: "stepCompleted",
    value: { step: 0, usage: { inputTokens: 1, outputTokens: 2 } },
  });
  const agentTurn = { userMessage: ids.userMessage, steps: [ids.step] };
  const turn = create(TurnBlobSchema, { turn: { case: "agentTurn", value: agentTurn } });
  const turnId = await talk.keep(toBinary(TurnBlobSchema, turn), BlobKind.TURN);
  await talk.checkpoint({
    messages: [...before.messages, ids.heard, ids.answer],
    turns: [...before.turns, turnId],
  });
  await talk.end({ reason: 1, inputTokens: 1, outputTokens: 2 });
}

test("a conversation goes on from its checkpoint and never sends its history", async (t) => {
  const requests: RunRequest[] = [];
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      requests.push(talk.request);
      await echo(talk);
    }),
  );
  const { conversations } = rig.process();
  const conversation = await conversations.begin({ model: "m", systemPrompt: "Be kind." });
  const ends = [];
  for (const text of ["one", "two", "three"]) ends.push(await (await conversation.send({ text })).ended);
  assert.deepEqual(
    ends.map(({ reason, text, usage }) => [reason, text, usage.outputTokens]),
    [
      ["completed", "You said one.", 2],
      ["completed", "You said two.", 2],
      ["completed", "You said three.", 2],
    ],
  );
  assert.deepEqual(
    requests.map(({ conversationState }) => conversationState?.messages.length ?? 0),
    [0, 2, 4],
  );
  assert.ok(requests.every(({ history, preFetchedBlobs }) => history.length + preFetchedBlobs.length === 0));
  assert.ok(requests.every(({ systemPrompt }) => systemPrompt?.content.case === "inline"));
  const full = await conversation.full();
  assert.deepEqual(
    full.turns.map((turn) =>
      turn.kind === "agent" && turn.userMessage?.kind === "found" ? turn.userMessage.value.text : "",
    ),
    ["one", "two", "three"],
  );
  const [{ title, turn, lastTurn } = conversation.record] = await conversations.list();
  assert.deepEqual([title, turn, lastTurn?.reason], ["one", undefined, "completed"]);
});

test("a conversation continues in another process, and one turn at a time", async (t) => {
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      if (saidIn(talk.request) === "wait") await go.promise;
      await echo(talk);
    }),
  );
  const disk = newDisk();
  const first = rig.process(disk);
  const begun = await first.conversations.begin();
  await (
    await begun.send({ text: "one" })
  ).ended;
  const second = rig.process(disk);
  const found = await second.conversations.open(begun.id);
  const waiting = await found.send({ text: "wait" });
  await assert.rejects(found.send({ text: "too soon" }), {
    code: "busy",
    message: /turn under way/,
  });
  await assert.rejects(begun.send({ text: "too soon" }), { code: "busy" });
  go.resolve();
  await waiting.ended;
  await (
    await begun.send({ text: "three" })
  ).ended;
  assert.equal((await begun.full()).turns.length, 3);
  await assert.rejects(second.conversations.open("none"), { code: "not_found" });
});

test("attachments and long prompts are blobs that the server asks for, small and large", async (t) => {
  const large = new Uint8Array(200_000).fill(7);
  const got: string[] = [];
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      const action = talk.request.action?.action;
      const attachments =
        action?.case === "userMessageAction" ? (action.value.userMessage?.attachments ?? []) : [];
      const contents = [...attachments.map(({ content }) => content), talk.request.systemPrompt];
      for (const content of contents) {
        assert.ok(content?.content.case === "blobId");
        const answer = await talk.fetch(content.content.value);
        assert.ok(answer.case === "getBlobResult");
        const { blobData, uploaded } = answer.value;
        const bytes = uploaded ? await talk.stream.blobs?.get(hexOf(content.content.value)) : blobData;
        got.push(
          `${uploaded} ${bytes?.length} ${blobIdOf(bytes ?? utf8("")) === hexOf(content.content.value)}`,
        );
      }
      const missing = await talk.fetch(new Uint8Array(32));
      got.push(String(missing.case === "getBlobResult" && missing.value.notFound && missing.value.blobData));
      await talk.end();
    }),
  );
  const { conversations } = rig.process();
  const conversation = await conversations.begin({ systemPrompt: "p".repeat(70_000) });
  const attachments = [
    { mediaType: "text/plain", bytes: utf8("small") },
    { mediaType: "image/png", fileName: "a.png", bytes: large },
  ];
  await (
    await conversation.send({ text: "look", attachments })
  ).ended;
  assert.deepEqual(got, ["false 5 true", "true 200000 true", "true 70000 true", "undefined"]);
});

test("a message too long for an event is refused before anything is sent", async (t) => {
  const rig = await AgentRig.start(t, scripted(echo));
  const { conversations } = rig.process();
  const conversation = await conversations.begin();
  await assert.rejects(conversation.send({ text: "x".repeat(200_000) }), {
    code: "too_large",
    message: /attach it/,
  });
  assert.deepEqual(await conversations.list(), []);
  assert.equal((await (await conversation.send({ text: "ok" })).ended).reason, "completed");
});

test("a large answer that only a blob has is found and shown", async (t) => {
  const words = "long ".repeat(20_000);
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      const answer = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: words }] });
      await talk.keep(answer, BlobKind.ASSISTANT_MESSAGE);
      await talk.end();
    }),
  );
  const turn = await (await rig.process().conversations.begin()).send({ text: "hi" });
  assert.equal((await turn.ended).text, words);
});

test("questions are asked of the handler, and where there is none they are answered so", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      await talk.send({
        case: "interactionQuery",
        value: { id: 9, query: { case: "askQuestion", value: { questions: [{ id: "q", text: "why?" }] } } },
      });
      const answer = await talk.until((message) =>
        message.case === "interactionResponse" && message.value.id === 9 ? message.value.response : undefined,
      );
      await talk.text(
        answer.case === "askQuestion" ? (answer.value.answers[0]?.text ?? "") : (answer.case ?? ""),
      );
      await talk.end();
    }),
  );
  const { conversations } = rig.process();
  const conversation = await conversations.begin();
  assert.equal((await (await conversation.send({ text: "hi" })).ended).text, "unanswerable");
  const answers = [{ questionId: "q", optionIds: [], text: "because" }];
  const onQuery = async () => ({ case: "askQuestion" as const, value: { answers } });
  assert.equal((await (await conversation.send({ text: "hi" }, { onQuery })).ended).text, "because");
  // By hand, later: the handler leaves it to somebody else.
  const later = await conversation.send({ text: "hi" }, { onQuery: async () => undefined });
  await until(() => later.view.queries.length === 1, "it is asked");
  await later.answer(9, { case: "askQuestion", value: { answers: [{ ...answers[0], text: "later" }] } });
  await assert.rejects(later.answer(9, { case: "askQuestion", value: { answers: [] } }), {
    code: "not_found",
  });
  assert.equal((await later.ended).text, "later");
});

test("D3: a question is closed when its turn is aborted", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      await talk.send({
        case: "interactionQuery",
        value: { id: 9, query: { case: "askQuestion", value: { questions: [{ id: "q", text: "why?" }] } } },
      });
      await talk.until(() => undefined);
    }),
  );
  const asked = Promise.withResolvers<AbortSignal>();
  const onQuery: OnQuery = (_query, _turn, signal) => {
    asked.resolve(signal);
    return new Promise(() => undefined);
  };
  const turn = await (await rig.process().conversations.begin()).send({ text: "hi" }, { onQuery });
  const signal = await asked.promise;
  assert.ok(!signal.aborted);
  await turn.abort();
  assert.equal((await turn.ended).reason, "aborted");
  assert.ok(signal.aborted);
});

test("what is said while a turn runs reaches the agent, and so does cancel", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      const heard = await talk.until((message) => {
        const action = message.case === "conversationAction" ? message.value.action : undefined;
        return action?.case === "userMessageAction" ? action.value.userMessage?.text : undefined;
      });
      const why = await talk.until((message) => {
        const action = message.case === "conversationAction" ? message.value.action : undefined;
        return action?.case === "cancelAction" ? action.value.reason : undefined;
      });
      await talk.text(`${heard}, ${why}`);
      await talk.end({ reason: 2 });
    }),
  );
  const turn = await (await rig.process().conversations.begin()).send({ kind: "continue" });
  await turn.say("also this");
  await turn.cancel("enough");
  const { reason, text } = await turn.ended;
  assert.deepEqual([reason, text], ["aborted", "also this, enough"]);
});

/** The words of each message that a conversation's next turn will know. */
async function messagesOf(
  process: ReturnType<AgentRig["process"]>,
  turn: Turn,
  blobs: { get(id: string): Promise<Uint8Array | undefined> },
): Promise<readonly string[]> {
  const { record } = await process.conversations.open(turn.conversationId);
  const state = fromBinary(ConversationStateSchema, record.checkpoint ?? new Uint8Array());
  const words: string[] = [];
  for (const id of state.messages) {
    const bytes = await blobs.get(hexOf(id));
    const message = decodeChatMessage(bytes ?? utf8(""));
    words.push(`${message.role}: ${textOf(message)}`);
  }
  return words;
}

test("D3: what was said in a turn that was stopped is known to the next one", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      if (saidIn(talk.request) !== "stop me") return echo(talk);
      await talk.update({ case: "stepStarted", value: { step: 0 } });
      await talk.text("I was about to");
      await new Promise<never>((_, reject) => {
        talk.stream.signal.addEventListener("abort", () => reject(new Error("stopped")));
      });
    }),
  );
  const disk = newDisk();
  const process = rig.process(disk);
  const conversation = await process.conversations.begin();
  await (
    await conversation.send({ text: "one" })
  ).ended;
  const before = conversation.state?.messages ?? [];
  const turn = await conversation.send({ text: "stop me" });
  await until(() => turn.view.parts.length > 0, "it speaks");
  await turn.abort();
  assert.equal((await turn.ended).reason, "aborted");
  assert.deepEqual(await messagesOf(process, turn, disk.stores.blobs), [
    "user: one",
    "assistant: You said one.",
    "user: stop me",
    "assistant: I was about to",
  ]);
  assert.deepEqual(conversation.state?.messages.slice(0, before.length), before);
  const full = await conversation.full();
  assert.equal(full.turns.length, 2);
  assert.equal((await (await conversation.send({ text: "three" })).ended).reason, "completed");
  assert.equal((await conversation.full()).turns.length, 3);
});

test("a turn that fails says why, and its conversation goes on", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      if (saidIn(talk.request) !== "fail") return echo(talk);
      const failure = { kind: FailureKind.RATE_LIMITED, message: "slow down", retryAfterMs: 10 };
      await talk.end({ reason: 3, failure });
    }),
  );
  const conversation = await rig.process().conversations.begin();
  const { reason, failure } = await (await conversation.send({ text: "fail" })).ended;
  assert.deepEqual([reason, failure?.kind, failure?.retryAfterMs], ["failed", FailureKind.RATE_LIMITED, 10]);
  assert.equal(conversation.record.lastTurn?.message, "slow down");
  assert.equal((await (await conversation.send({ text: "again" })).ended).reason, "completed");
  assert.equal(conversation.state?.messages.length, 3, "what was said before the failure is there");
});

test("F1: a message that this client cannot read does not keep a turn open that is over", async (t) => {
  const strange = new TextEncoder().encode('{"role":"assistant","content":[{"type":"picture"}]}');
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      if (saidIn(talk.request) !== "fail") return echo(talk);
      await talk.keep(strange, BlobKind.ASSISTANT_MESSAGE);
      await talk.end({ reason: 3 });
    }),
  );
  const conversation = await rig.process().conversations.begin();
  assert.equal((await (await conversation.send({ text: "fail" })).ended).reason, "failed");
  assert.equal((await (await conversation.send({ text: "again" })).ended).reason, "completed");
});

test("E8: a request that does not fit a chunk is refused with what can be done about it", async (t) => {
  const rig = await AgentRig.start(t, scripted(echo));
  const { conversations } = rig.process();
  const conversation = await conversations.begin();
  const definition = create(ToolDefinitionSchema, { name: "t", parametersJson: "x".repeat(600_000) });
  const sent = conversation.send(
    { text: "hi" },
    { tools: { kinds: [], definitions: [definition, definition] } },
  );
  await assert.rejects(sent, { code: "too_large", message: /fewer tools/ });
  assert.deepEqual(await conversations.list(), []);
});

test("a summary that was stopped halfway leaves the conversation as it was", async (t) => {
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      if (saidIn(talk.request) !== "summarizeAction") return echo(talk);
      await talk.text("In short,");
      await new Promise<never>((_, reject) => {
        talk.stream.signal.addEventListener("abort", () => reject(new Error("stopped")));
      });
    }),
  );
  const conversation = await rig.process().conversations.begin();
  await (
    await conversation.send({ text: "one" })
  ).ended;
  const before = conversation.state;
  const turn = await conversation.send({ kind: "summarize" });
  await until(() => turn.view.parts.length > 0, "it speaks");
  await turn.abort();
  assert.equal((await turn.ended).reason, "aborted");
  assert.deepEqual(conversation.state, before);
});
