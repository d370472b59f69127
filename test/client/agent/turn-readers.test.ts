/**
 * `for await (const part of turn)`: who appends texts and obeys `retract` shows what counts, and only that.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SettledPart, TurnPart } from "../../../src/client/index.ts";
import { AgentRig, newDisk, scripted, type Talk } from "./agent-rig.ts";

/** A step that says one thing, is cut off, and says another. */
async function changesItsMind(talk: Talk, cut: Promise<void> = Promise.resolve()): Promise<void> {
  const begin = await talk.update({ case: "stepStarted", value: { step: 0, model: "m" } });
  await talk.text("The answer is ");
  await talk.text("41");
  await cut;
  const rollbackToEventId = String(begin);
  await talk.update({ case: "stepRestarted", value: { step: 0, attempt: 1, rollbackToEventId } });
  await talk.text("It is 42.");
  await talk.update({ case: "stepCompleted", value: { step: 0 } });
  await talk.end({ reason: 1 });
}

/** The loop of the manual. */
async function follow(parts: AsyncIterable<TurnPart>) {
  let shown = "";
  let end: string | undefined;
  const kinds = new Set<string>();
  for await (const part of parts) {
    kinds.add(part.type);
    if (part.type === "text") shown += part.text;
    if (part.type === "retract") shown = part.kept;
    if (part.type === "end") end = part.end.reason;
  }
  return { shown, end, kinds };
}

test("a reader that obeys retract shows the answer, although its step began anew", async (t) => {
  const cut = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    scripted((talk) => changesItsMind(talk, cut.promise)),
  );
  const { conversations } = rig.process();
  const turn = await (await conversations.begin()).send({ text: "what?" });
  const [live, settled] = [follow(turn), follow(turn.settled)];
  for await (const part of turn) {
    if (part.type === "text" && part.text.endsWith("41")) break;
  }
  cut.resolve();
  const { shown, end, kinds } = await live;
  assert.deepEqual([shown, end], ["It is 42.", "completed"]);
  assert.ok(kinds.has("retract"));
  assert.equal((await turn.ended).text, shown);
  const whole = await settled;
  assert.deepEqual([whole.shown, whole.end], ["It is 42.", "completed"]);
  assert.ok(!whole.kinds.has("retract"));
  // Who comes when it is over reads the same.
  assert.deepEqual((await follow(turn)).shown, shown);
  assert.deepEqual((await follow(turn.settled)).shown, shown);
});

test("B3: a process that died reads the turn from its beginning when it is back", async (t) => {
  const died = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    scripted((talk) => changesItsMind(talk, died.promise)),
  );
  const disk = newDisk();
  const first = rig.process(disk);
  const turn = await (await first.conversations.begin()).send({ text: "what?" });
  for await (const part of turn) if (part.type === "text") break;
  first.kill();
  died.resolve();
  const { turns } = await rig.process(disk).conversations.resumeAll();
  const [again] = turns;
  assert.ok(again !== undefined);
  assert.deepEqual((await follow(again)).shown, "It is 42.");
});

test("a turn that this client lets go of ends for its readers, without the text that may still be taken back", async (t) => {
  const never = new Promise<void>(() => undefined);
  const rig = await AgentRig.start(
    t,
    scripted((talk) => changesItsMind(talk, never)),
  );
  const { conversations, client } = rig.process();
  const turn = await (await conversations.begin()).send({ text: "what?" });
  const [live, settled] = [follow(turn), follow(turn.settled)];
  for await (const part of turn) {
    if (part.type === "text" && part.text.endsWith("41")) break;
  }
  await client.close();
  const { shown, end } = await live;
  assert.deepEqual([shown, end], ["The answer is 41", "left"]);
  assert.deepEqual((await settled).shown, "");
  await turn.abort().catch(() => undefined);
});

test("a reader learns that this client could not keep what it got", async (t) => {
  const rig = await AgentRig.start(t, scripted(changesItsMind));
  const disk = newDisk();
  const process = rig.process(disk);
  const turn = await (await process.conversations.begin()).send({ text: "what?" });
  const broken = new Error("the disk is full");
  disk.stores.records.put = () => Promise.reject(broken);
  await assert.rejects(follow(turn), broken);
  await assert.rejects(turn.ended, broken);
});

test("retract is no part of what is settled, also for the compiler", () => {
  // @ts-expect-error a loop over `turn.settled` needs no case for it
  const kind: SettledPart["kind"] = "retract";
  assert.equal(kind, "retract");
});

test("two calls of next that wait at the same time both get an answer", async (t) => {
  const cut = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    scripted(async (talk) => {
      await cut.promise;
      await changesItsMind(talk);
    }),
  );
  const turn = await (await rig.process().conversations.begin()).send({ text: "what?" });
  const parts = turn[Symbol.asyncIterator]();
  const waiting = [parts.next(), parts.next(), parts.next()];
  let answered = 0;
  for (const one of waiting) void one.then(() => answered++);
  cut.resolve();
  await turn.ended;
  // Whatever is answered at all is answered within these turns of the event loop.
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(answered, waiting.length);
});
