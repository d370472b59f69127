/**
 * A client that died before its journal was on disk: the conversation remembers the turn, and the server may have it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import { BlobKind, encodeChatMessage, UserMessageSchema } from "../../../src/protocol/index.ts";
import { AgentRig, type Disk, newDisk, scripted } from "./agent-rig.ts";

const ANSWER = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "yes" }] });

/** Says something, and waits for the client to keep it. */
const application = scripted(async (talk) => {
  const userMessage = create(UserMessageSchema, { text: "hi" });
  await talk.update({ case: "userMessageAppended", value: { userMessage } });
  await talk.update({ case: "stepStarted", value: { step: 0 } });
  await talk.text("yes");
  const kept = await talk.keep(ANSWER, BlobKind.ASSISTANT_MESSAGE);
  await talk.update({ case: "stepCompleted", value: { step: 0 } });
  await talk.checkpoint({ messages: [kept] });
  await talk.end();
});

/** Everything but the journals, which never get there: their writes hang until the process is gone. */
function withoutJournals(disk: Disk, gone: Promise<void>): Disk {
  const hang = (): Promise<never> => gone.then(() => Promise.reject(new Error("this process is dead")));
  return { ...disk, journals: { ...disk.journals, append: hang, replace: hang } };
}

test("F1: a turn of which there is no journal is taken over, and comes to its end", async (t) => {
  const rig = await AgentRig.start(t, application);
  const disk = newDisk();
  const gone = Promise.withResolvers<void>();
  const dying = rig.process(withoutJournals(disk, gone.promise));
  const before = await dying.conversations.begin();
  const turn = await before.send({ text: "hi" });
  // The first chunk is with the server, and nothing of this client can be acknowledged.
  await turn.interaction.next();
  dying.kill();
  gone.resolve();
  const { conversations } = rig.process(disk);
  const [resumed] = (await conversations.resumeAll()).turns;
  assert.equal(resumed?.role, "writer");
  const end = await resumed.ended;
  assert.deepEqual([end.reason, end.text], ["completed", "yes"]);
  const conversation = await conversations.open(before.id);
  assert.deepEqual([conversation.state?.messages.length, conversation.record.turn], [1, undefined]);
});

test("F1: also when the turn has ended meanwhile", async (t) => {
  const rig = await AgentRig.start(t, application);
  const disk = newDisk();
  const first = rig.process(disk);
  const before = await first.conversations.begin();
  const turn = await before.send({ text: "hi" });
  const { record } = before;
  assert.equal((await turn.ended).reason, "completed");
  await first.client.close();
  // As it would be, had the client died at the last moment and another one cleared the journal away.
  const { version = 0 } = (await disk.stores.records.get(before.id)) ?? {};
  await disk.stores.records.put({ ...record, version });
  await disk.journals.remove(turn.stream.idempotencyKey);
  const { conversations } = rig.process(disk);
  const conversation = await conversations.open(before.id);
  const end = await (await conversation.resume())?.ended;
  assert.deepEqual([end?.reason, end?.text], ["completed", "yes"]);
  assert.deepEqual([conversation.state?.messages.length, conversation.record.turn], [1, undefined]);
});
