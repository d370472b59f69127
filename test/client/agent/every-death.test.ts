/**
 * A client that dies at each event of a turn, one after the other: the next one always comes to the same end.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "../../../src/protocol/message.ts";
import type { ConversationRecord, OnQuery, TurnView } from "../../../src/client/index.ts";
import {
  BlobKind,
  ConversationStateSchema,
  encodeChatMessage,
  TodoItemSchema,
} from "../../../src/protocol/index.ts";
import { until } from "../../e2e/rig.ts";
import { AgentRig, newDisk, scripted, type Talk } from "./agent-rig.ts";

const say = (role: "user" | "assistant", text: string): Uint8Array =>
  encodeChatMessage({ role, content: [{ type: "text", text }] });

/** One of everything that a client has to do something about. */
async function script(talk: Talk): Promise<void> {
  const action = talk.request.action?.action;
  const userMessage = action?.case === "userMessageAction" ? action.value.userMessage : undefined;
  await talk.update({ case: "userMessageAppended", value: userMessage === undefined ? {} : { userMessage } });
  const messages = [await talk.keep(say("user", "hi"), BlobKind.MESSAGE)];
  for (const step of [0, 1]) {
    await talk.update({ case: "stepStarted", value: { step } });
    await talk.update({ case: "thinkingDelta", value: { text: "hm" } });
    await talk.text(`step ${step}`);
    messages.push(await talk.keep(say("assistant", `step ${step}`), BlobKind.ASSISTANT_MESSAGE));
    await talk.update({ case: "stepCompleted", value: { step, usage: { outputTokens: 1 } } });
    await talk.send({
      case: "interactionQuery",
      value: { id: step, query: { case: "askQuestion", value: { questions: [{ id: "q", text: "on?" }] } } },
    });
    await talk.until((message) =>
      message.case === "interactionResponse" && message.value.id === step ? message.value : undefined,
    );
    await talk.checkpoint({ messages });
  }
  const large = await talk.keep(say("assistant", "x".repeat(70_000)), BlobKind.ASSISTANT_MESSAGE);
  const todo = toBinary(TodoItemSchema, create(TodoItemSchema, { id: "1", text: "tea" }));
  await talk.checkpoint({ messages: [...messages, large], todos: [await talk.keep(todo, BlobKind.TODO)] });
  await talk.end();
}

const yes: OnQuery = async () => ({ case: "askQuestion", value: { answers: [] } });

/** What everybody must agree on. */
const shown = ({ userMessages, parts, usage, todos, end, messages, eventId }: TurnView): unknown => ({
  said: userMessages.map(({ text }) => text),
  parts,
  usage,
  todos,
  end,
  messages,
  eventId,
});

test("B3: whenever a client dies, the next one comes to the same view and the same conversation", async (t) => {
  const rig = await AgentRig.start(t, scripted(script));
  const whole = await (
    await rig.process(newDisk(), { onQuery: yes }).conversations.begin()
  ).send({ text: "hi" });
  assert.equal((await whole.ended).reason, "completed");
  const last = whole.view.eventId;
  assert.ok(last >= 20, `there are ${last} events`);
  for (let at = 1; at < last; at++) {
    const disk = newDisk();
    const dying = rig.process(disk, { onQuery: yes });
    const before = await (await dying.conversations.begin()).send({ text: "hi" });
    before.watch((view) => {
      if (view.eventId === at) dying.kill();
    });
    await until(() => before.view.eventId >= at, `event ${at}`);
    dying.kill();
    let length = 0;
    const { records } = disk.stores;
    const put = (record: ConversationRecord): Promise<ConversationRecord> => {
      const { messages } = fromBinary(ConversationStateSchema, record.checkpoint ?? new Uint8Array());
      assert.ok(messages.length >= length, "a newer checkpoint is never written over by an older one");
      length = messages.length;
      return records.put(record);
    };
    const found = await records.get(before.conversationId);
    if (found !== undefined) await put(found);
    const restarted = rig.process(
      { ...disk, stores: { ...disk.stores, records: { ...records, put } } },
      { onQuery: yes },
    );
    const conversation = await restarted.conversations.open(before.conversationId);
    // The end may have come with the event at which the client dies: then there is nothing to resume.
    const turn = (await conversation.resume()) ?? before;
    assert.equal((await turn.ended).reason, "completed");
    assert.deepEqual(shown(turn.view), shown(whole.view), `killed at event ${at}`);
    assert.equal(conversation.state?.messages.length, 4);
    assert.equal(conversation.record.turn, undefined);
    for (const id of conversation.state?.messages ?? []) {
      assert.ok((await disk.stores.blobs.get(Buffer.from(id).toString("hex"))) !== undefined);
    }
  }
});
