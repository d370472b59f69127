/**
 * F2: a long answer in memory: few pieces, the same text for every reader, wherever it begins.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../src/protocol/message.ts";
import { AnswerMemory, type HeardEvent, textIn } from "../../src/gateway/answer-memory.ts";
import { AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import { updateMessage } from "../../src/turn/messages.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, readReply, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { World } from "./world.ts";

const EVENTS = 5_000;
const PIECES_MAX = 1_100;
const CALM = new AbortController().signal;

function textEvent(kind: "textDelta" | "thinkingDelta", eventId: number, text: string): HeardEvent {
  return { eventId, message: updateMessage({ case: kind, value: { text } }), isPause: false };
}

/** Text with some thinking in between, and now and then an event that is no text. */
function eventOf(eventId: number): HeardEvent {
  const kind = Math.floor(eventId / 700) % 2 === 0 ? "textDelta" : "thinkingDelta";
  if (eventId % 333 !== 0) return textEvent(kind, eventId, `${eventId} `);
  return { eventId, message: create(AgentServerMessageSchema), isPause: false };
}

const ALL: readonly HeardEvent[] = Array.from({ length: EVENTS }, (_, at) => eventOf(at + 1));

const wordsOf = (event: HeardEvent): string => textIn(event)?.value.text ?? "";

function wordsAfter(eventId: number): string {
  return ALL.filter((event) => event.eventId > eventId)
    .map(wordsOf)
    .join("");
}

type Events = AsyncGenerator<HeardEvent, void>;

/** Reads so many events; all that there are when they end, or when the answer is cut off. */
async function read(
  events: Events,
  count: number,
): Promise<{ readonly words: string; readonly last: number }> {
  let [words, last] = ["", 0];
  for (let at = 0; at < count; at++) {
    const { done, value } = await events.next().catch(() => ({ done: true, value: undefined }) as const);
    if (done === true) break;
    words += wordsOf(value);
    last = value.eventId;
  }
  return { words, last };
}

test("F2: an answer of any length is few pieces, and a reader at any place that is held reads the same words", async () => {
  const memory = new AnswerMemory(0, () => undefined);
  for (const event of ALL) {
    memory.add(event);
    assert.ok(memory.size <= PIECES_MAX, `${memory.size} pieces`);
  }
  memory.finish(undefined);
  for (let from = 0; from <= EVENTS; from += 97) {
    assert.ok(memory.holds(from), `${from}`);
    assert.equal((await read(memory.events(from, CALM), Infinity)).words, wordsAfter(from), `${from}`);
  }
});

test("a reader's place parts what was joined: what it has and what it lacks are never one event", async () => {
  const memory = new AnswerMemory(0, () => undefined);
  for (const event of ALL) memory.add(event);
  memory.finish(undefined);
  for (const border of [1, 2, 699, 700, 1_234, 3_999, EVENTS - 600, EVENTS - 3]) {
    let [before, behind] = ["", ""];
    for await (const event of memory.events(0, CALM, border)) {
      assert.ok(event.eventId <= border || (event.joinedAfter ?? border) >= border, `${event.eventId}`);
      if (event.eventId <= border) before += wordsOf(event);
      else behind += wordsOf(event);
      if (event.eventId === EVENTS) break;
    }
    assert.equal(behind, wordsAfter(border), `${border}`);
    assert.equal(before + behind, wordsAfter(0), `${border}`);
  }
});

test("F2: a slow reader is served from memory while what it has not read is joined", async () => {
  const memory = new AnswerMemory(0, () => undefined);
  const slow = memory.events(0, CALM);
  let words = "";
  for (const [at, event] of ALL.entries()) {
    memory.add(event);
    if (at % 3 === 0) words += (await read(slow, 1)).words;
  }
  memory.finish(undefined);
  assert.equal(words + (await read(slow, Infinity)).words, wordsAfter(0));
});

test("F2: an answer that is complete and without a reader is dropped from memory", () => {
  const memory = new AnswerMemory(0, () => undefined);
  for (const event of ALL.slice(0, 10)) memory.add(event);
  memory.add({ ...eventOf(11), isPause: true });
  const leave = memory.attend();
  memory.settle(11);
  assert.ok(memory.holds(0));
  leave();
  leave();
  assert.deepEqual([memory.size, memory.readers, memory.holds(0), memory.pausedAt], [0, 0, false, 11]);
  memory.add(textEvent("textDelta", 12, "more"));
  assert.deepEqual([memory.successor().fromEvent, memory.successor().size], [11, 1]);
  const unread = new AnswerMemory(0, () => undefined);
  unread.add({ ...eventOf(1), isPause: true });
  unread.settle(1);
  assert.deepEqual([unread.size, unread.holds(0)], [0, false], "no reader has to leave first");
});

test("F2: a long answer under way is read on from its beginning, its end, and from what is joined by now", async (t) => {
  const pieces = Array.from({ length: 1_500 }, (_, at) => `w${at} `);
  const words = pieces.join("");
  const pause = Promise.withResolvers<void>();
  // Each piece an event of its own, as a slow model has it.
  const application = scriptedTurn(async (speaker) => {
    await speaker.stepStarted(0);
    for (const piece of pieces) await speaker.text(piece);
    await pause.promise;
    await speaker.text("end.");
    await speaker.stepCompleted(0);
    await speaker.end();
  });
  const world = await World.begin(t, new PacedModel(() => []), { application });
  const body = bodyOf([user("Tell me")]);
  const broken = new Exchange(world.url, body);
  await broken.until("w1499 ");
  broken.hangUp();
  const seen = await broken.reply();
  assert.ok(seen.ids.length > 1_000, "in many frames");
  await until(() => world.gateway.readers === 0, "nobody reads");
  const again = new Exchange(world.url, body);
  await again.until("w1499 ");
  assert.equal(world.gateway.counters.attached, 1);
  const resumed = [0.01, 0.5, 0.999].map((share) => {
    const path = `/v1/streams/${seen.streamId}/events`;
    const from = seen.ids[Math.floor(share * seen.ids.length)] ?? "";
    const exchange = new Exchange(world.url, undefined, {
      path,
      method: "GET",
      headers: { "last-event-id": from },
    });
    return { exchange, before: textThrough(seen.body, from) };
  });
  // All have the words, and count as readers, while the model has not ended.
  for (const { exchange, before } of resumed)
    await until(() => before.includes("w1499 ") || exchange.hasCome("w1499 "), "the words are there");
  await until(() => world.gateway.readers === 4, "all are readers");
  pause.resolve();
  assert.equal((await again.reply()).text, `${words}end.`);
  for (const { exchange, before } of resumed) {
    assert.equal(before + (await exchange.reply()).text, `${words}end.`);
  }
});

/** What a client has when it has read as far as the frame of that id. */
function textThrough(body: string, id: string): string {
  const end = body.indexOf("\n\n", body.indexOf(`id: ${id}\n`)) + 2;
  return readReply(body.slice(0, end), { status: 200, streamId: "", isEnded: false }).text;
}
