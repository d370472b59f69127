/**
 * Conversations longer than a page, with the agent itself behind them and a server that forgets everything between turns: shown whole,
 * gone on with, cut off where a page ends, cleaned up.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent } from "../../../src/agent/index.ts";
import { blobIdOf, type Conversation } from "../../../src/client/index.ts";
import { countOf, encodeChatMessage, messageIds, textOf, turnIds } from "../../../src/protocol/index.ts";
import { BlobKind, TurnEndReason } from "../../../src/protocol/messages.ts";
import type { Application } from "../../../src/server/index.ts";
import { until } from "../../e2e/rig.ts";
import { modelsOf, PacedModel } from "../../gateway/paced-model.ts";
import { AgentRig, newDisk, scripted } from "./agent-rig.ts";

const never = (): Promise<never> => new Promise(() => undefined);

/** Asked to work, it asks for three tools that there are not, and is then at work for ever; else it answers. */
function model(): PacedModel {
  return new PacedModel((call) => {
    const asked = call.messages.findLastIndex(({ role }) => role === "user");
    const steps = (call.messages.length - 1 - asked) / 2;
    const told = textOf(call.messages[asked] ?? { role: "user", content: [] });
    if (!told.startsWith("Work")) return [`You said ${told}`];
    if (steps === 3) return ["And now ", never];
    return [`Step ${steps}. `, { tool: `nothing_${steps}`, args: {} }];
  });
}

/** Each turn is another process of the server: nothing is remembered. */
const forgetful = (paced: PacedModel): Application => {
  return (stream) => createAgent({ models: modelsOf(paced) })(stream);
};

async function say(conversation: Conversation, text: string): Promise<void> {
  const turn = await conversation.send({ text });
  assert.equal((await turn.ended).reason, "completed");
}

async function wordsIn(conversation: Conversation): Promise<readonly string[]> {
  const { turns } = await conversation.full();
  return turns.map((turn) =>
    turn.kind === "agent" && turn.userMessage?.kind === "found" ? turn.userMessage.value.text : turn.kind,
  );
}

test("a conversation of several pages goes on in another process, is shown whole, and keeps what it needs", async (t) => {
  const paced = model();
  const rig = await AgentRig.start(t, forgetful(paced));
  const disk = newDisk();
  const first = rig.process(disk);
  const begun = await first.conversations.begin();
  for (let turn = 0; turn < 20; turn++) await say(begun, `Say ${turn}`);
  first.kill();

  const { conversations } = rig.process(disk);
  const conversation = await conversations.open(begun.id);
  for (let turn = 20; turn < 40; turn++) await say(conversation, `Say ${turn}`);
  const all = Array.from({ length: 40 }, (_, turn) => `Say ${turn}`);
  assert.deepEqual(await wordsIn(conversation), all);
  assert.equal(await conversation.lastAnswer(), "You said Say 39");
  const told = paced.calls.at(-1)?.messages.map(textOf) ?? [];
  assert.deepEqual(told, all.flatMap((text) => [text, `You said ${text}`]).slice(0, -1));
  const { state } = conversation;
  assert.deepEqual([countOf(messageIds(state)), countOf(turnIds(state))], [80, 40]);
  assert.ok((state?.messages.length ?? 0) <= 16 && (state?.turns.length ?? 0) <= 16);

  const { blobs } = disk.stores;
  await blobs.put(blobIdOf(Uint8Array.of(1)), Uint8Array.of(1));
  const report = await conversations.collectGarbage({ graceMs: -1 });
  assert.deepEqual([report.deleted, report.missing, report.unreadable], [1, [], []]);
  assert.deepEqual(await wordsIn(conversation), all);
  await say(conversation, "Say more");
  assert.equal(paced.calls.at(-1)?.messages.length, 81);

  const [page] = conversation.state?.turnPages ?? [];
  assert.ok(page !== undefined);
  await blobs.delete(Buffer.from(page.page).toString("hex"));
  assert.deepEqual(await wordsIn(conversation), ["missing", ...all.slice(16), "Say more"]);
  assert.deepEqual((await conversations.collectGarbage({ graceMs: -1 })).missing.length, 1);
});

test("turns that are stopped, wherever a page ends, leave what was said once, in order, and are shown once", async (t) => {
  const paced = model();
  const rig = await AgentRig.start(t, forgetful(paced));
  const { conversations } = rig.process();
  const conversation = await conversations.begin();
  // Four messages first: so a page ends among those of a turn that a checkpoint has.
  for (const text of ["Hello", "Hello again"]) await say(conversation, text);
  const said = ["Hello", "You said Hello", "Hello again", "You said Hello again"];
  for (let turn = 0; turn < 8; turn++) {
    const cutOff = await conversation.send({ text: `Work ${turn}` });
    const isAtWork = (): boolean =>
      (cutOff.view.checkpointEventId ?? 0) > 0 &&
      cutOff.view.parts.some((part) => part.type === "text" && part.text.startsWith("And now"));
    await until(isAtWork, "the last step");
    await cutOff.abort();
    assert.equal((await cutOff.ended).reason, "aborted");
    said.push(`Work ${turn}`, "Step 0. ", "", "Step 1. ", "", "Step 2. ", "", "And now ");
    assert.equal(countOf(messageIds(conversation.state)), said.length);
  }
  await say(conversation, "What now?");
  const told = paced.calls.at(-1)?.messages ?? [];
  assert.deepEqual(
    told.map((message) => (message.role === "tool" ? "" : textOf(message))),
    [...said, "What now?"],
  );
  const works = Array.from({ length: 8 }, (_, turn) => `Work ${turn}`);
  assert.deepEqual(await wordsIn(conversation), ["Hello", "Hello again", ...works, "What now?"]);
});

test("pages in an order that this client does not know do not keep a turn that failed from being over", async (t) => {
  const answer = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "Half" }] });
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      const id = await talk.keep(answer, BlobKind.ASSISTANT_MESSAGE);
      await talk.checkpoint({ messages: [id], messagePages: [{ page: id, count: 32 }] });
      await talk.end({ reason: TurnEndReason.FAILED });
    }),
  );
  const conversation = await rig.process().conversations.begin();
  for (let turn = 0; turn < 2; turn++) {
    const failed = await conversation.send({ text: "Go" });
    assert.equal((await failed.ended).reason, "failed");
    assert.equal(await conversation.lastAnswer(), "Half");
    assert.deepEqual(
      conversation.state?.messagePages.map(({ count }) => count),
      [32],
      "what is not understood stays",
    );
  }
});

test("a conversation goes back by turns, over the end of a page, and goes on from there", async (t) => {
  const paced = model();
  const rig = await AgentRig.start(t, forgetful(paced));
  const { conversations } = rig.process(newDisk());
  const conversation = await conversations.begin();
  for (let turn = 0; turn < 20; turn++) await say(conversation, `Say ${turn}`);
  const all = Array.from({ length: 20 }, (_, turn) => `Say ${turn}`);
  await conversation.rewind(20);
  assert.deepEqual(await wordsIn(conversation), all);
  for (const kept of [19, 5, 0]) {
    await conversation.rewind(kept);
    assert.deepEqual(await wordsIn(conversation), all.slice(0, kept));
    await say(conversation, "Say else");
    const told = paced.calls.at(-1)?.messages.map(textOf);
    const before = all.slice(0, kept).flatMap((text) => [text, `You said ${text}`]);
    assert.deepEqual(told, [...before, "Say else"]);
  }
});

test("D2: a conversation with a turn under way does not go back", async (t) => {
  const rig = await AgentRig.start(t, forgetful(model()));
  const { conversations } = rig.process(newDisk());
  const conversation = await conversations.begin();
  await say(conversation, "Say this");
  const turn = await conversation.send({ text: "Work" });
  await assert.rejects(conversation.rewind(0), { code: "busy" });
  await turn.abort();
  await turn.ended;
  await conversation.rewind(1);
  assert.deepEqual(await wordsIn(conversation), ["Say this"]);
});
