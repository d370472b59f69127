/**
 * F2: a long answer in memory: few pieces, the same text for every reader, wherever it begins.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isInside } from "../../src/gateway/joined-deltas.ts";
import type { AnswerDelta } from "../../src/gateway/openai/index.ts";
import { type AnswerReader, ToldAnswer } from "../../src/gateway/told-answer.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, readReply, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { World } from "./world.ts";

const EVENTS = 5_000;
const PIECES_MAX = 1_100;

/** Text with some thinking in between, now and then two deltas of one event. */
function deltasOf(eventId: number): readonly AnswerDelta[] {
  const kind = Math.floor(eventId / 700) % 2 === 0 ? "text" : "reasoning";
  if (eventId % 333 !== 0) return [{ kind, text: `${eventId} `, eventId, endsEvent: true }];
  return [
    { kind: "text", text: `${eventId}a `, eventId, endsEvent: false },
    { kind: "text", text: `${eventId}b `, eventId, endsEvent: true },
  ];
}

const ALL: readonly AnswerDelta[] = Array.from({ length: EVENTS }, (_, at) => deltasOf(at + 1)).flat();

function wordsOf(delta: AnswerDelta | undefined): string {
  return delta?.kind === "text" || delta?.kind === "reasoning" ? delta.text : "";
}

function wordsAfter(eventId: number): string {
  return ALL.filter((delta) => delta.eventId > eventId)
    .map(wordsOf)
    .join("");
}

/** Reads so many deltas, or all that are there. */
async function read(reader: AnswerReader, count: number): Promise<string> {
  let words = "";
  for (let at = 0; at < count; at++) {
    const { value } = await reader.next();
    if (value === undefined) break;
    words += wordsOf(value);
  }
  return words;
}

test("F2: an answer of any length is few pieces, and whoever reads it from anywhere reads the same words", async () => {
  const answer = new ToldAnswer(() => undefined);
  const early = answer.read(0);
  const ahead = answer.read(2_500);
  const late: { readonly reader: AnswerReader; readonly from: number }[] = [];
  let words = "";
  for (const [at, delta] of ALL.entries()) {
    answer.tell(delta);
    assert.ok(answer.deltas.length <= PIECES_MAX, `${answer.deltas.length} pieces`);
    // Slower than it is told, so that its place is in the middle of what is joined.
    if (at % 3 === 0) words += await read(early, 1);
    const from = delta.eventId - (at % 900);
    if (at % 450 === 0 && from >= 0 && !isInside(answer.inside, from))
      late.push({ reader: answer.read(from), from });
  }
  answer.finish(undefined);
  assert.equal(words + (await read(early, Infinity)), wordsAfter(0));
  assert.equal(await read(ahead, Infinity), wordsAfter(2_500));
  assert.ok(late.length > 5);
  for (const { reader, from } of late)
    assert.equal(await read(reader, Infinity), wordsAfter(from), `${from}`);
  for (let from = 0; from <= EVENTS; from += 7) {
    if (isInside(answer.inside, from)) continue;
    assert.equal(await read(answer.read(from), Infinity), wordsAfter(from), `${from}`);
  }
  assert.ok(isInside(answer.inside, 100) && !isInside(answer.inside, EVENTS - 100));
  assert.ok(answer.inside.length < 40, "runs that go on are one");
});

test("F2: a long answer under way is gone on with from its beginning, its end, and from what is joined by now", async (t) => {
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
