/**
 * An answer whose model call is held beside its server, read while the log of its stream is still being read back: readers with words of it do not wait for the end of the log,
 * readers without words get only what counts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { AnswerLog, type AnswerReader } from "../../src/gateway/answer-log.ts";
import { AnswerMemory } from "../../src/gateway/answer-memory.ts";
import { Names } from "../../src/gateway/names.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { updateMessage } from "../../src/turn/messages.ts";
import { systemEnvironment } from "../../src/transport/environment.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { ALONE, World } from "./world.ts";

type Update = Parameters<typeof updateMessage>[0];

const LOG = new AnswerLog({
  clientOf: () => assert.fail("memory has everything"),
  names: new Names(new Uint8Array(32)),
  environment: systemEnvironment(),
  held: { namesOf: (_, { step, attempt }) => [`${step}/${attempt}`] },
});

/** The log of an answer that is read back, event by event. Its step begins anew with event 5. */
class ReadBack {
  readonly memory = new AnswerMemory(0, () => undefined);
  #next = 1;

  /** `held`: the step and the attempt whose call is. */
  constructor({ held }: { readonly held: string | undefined }) {
    this.memory.readBack();
    if (held !== undefined) this.memory.held.add(held);
  }

  hear(...updates: readonly Update[]): void {
    for (const update of updates) {
      const eventId = this.#next++;
      this.memory.add({ eventId, message: updateMessage(update), isPause: false });
      this.memory.heard(eventId);
    }
  }

  reader(seenThrough: number): AnswerReader {
    const answer = { streamId: "stream", fromEvent: 0 };
    const { signal } = new AbortController();
    return LOG.read({ principal: "alice", answer, seenThrough, signal, memory: this.memory });
  }
}

const begun: Update = { case: "stepStarted", value: { step: 0, model: "paced/model" } };
const anew: Update = { case: "stepRestarted", value: { step: 0, rollbackToEventId: "0" } };
const said = (text: string): Update => ({ case: "textDelta", value: { text } });

/** What it is given, as it comes. */
function wordsOf(reader: AnswerReader): { readonly text: string } {
  const words = { text: "" };
  void (async () => {
    for await (const delta of reader) if (delta.kind === "text") words.text += delta.text;
  })().catch((cause: unknown) => (words.text += HoldfastError.codeOf(cause) ?? "error"));
  return words;
}

/** Nothing here waits for more than some promises. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

/** What it is given until it has to wait. */
async function given(reader: AnswerReader): Promise<string> {
  const words = wordsOf(reader);
  await turns();
  return words.text;
}

test("a reader with words of a held answer gets those that follow while the log is read back", async () => {
  const log = new ReadBack({ held: "0/0" });
  log.memory.welcomed(1_000);
  log.hear(begun, said("One "), said("two "), said("three "));
  assert.equal(await given(log.reader(2)), "two three ");
});

test("a reader without words of it, and one of an answer that may be said anew, wait for what counts", async () => {
  for (const [held, seenThrough] of [
    ["0/1", 0],
    ["0/1", 1],
    // It has words of the attempt before.
    ["0/1", 2],
    [undefined, 2],
  ] as const) {
    const log = new ReadBack({ held });
    log.memory.welcomed(6);
    log.hear(begun, said("One "), said("or two "));
    const words = wordsOf(log.reader(seenThrough));
    await turns();
    assert.equal(words.text, "", `${seenThrough}`);
    log.hear(said("and "), anew, said("One by one "));
    await turns();
    assert.equal(words.text, seenThrough === 2 ? "by one " : "One by one ");
  }
});

test("G1: a reader with words of a step whose call is not held waits until more is said, whatever else is held of the stream", async () => {
  const log = new ReadBack({ held: "0/0" });
  log.memory.welcomed(6);
  log.hear(begun, said("Earlier."), { case: "stepCompleted", value: { step: 0 } });
  log.hear({ case: "stepStarted", value: { step: 1, model: "paced/model" } }, said("One "), said("or two "));
  const words = wordsOf(log.reader(5));
  await turns();
  assert.equal(words.text, "");
  log.hear({ case: "stepRestarted", value: { step: 1, rollbackToEventId: "4" } }, said("One by one "));
  await turns();
  assert.equal(words.text, "by one ");
});

test("G1: a reader without words waits for what counts, also when the call of an attempt that was given up is still held", async () => {
  const log = new ReadBack({ held: "0/0" });
  log.memory.welcomed(5);
  log.hear(begun, said("One "), said("or two "));
  const words = wordsOf(log.reader(1));
  await turns();
  log.hear(anew, said("Three "));
  await turns();
  assert.equal(words.text, "");
  log.hear(anew, said("Four "));
  await turns();
  assert.equal(words.text, "Four ");
});

test("B5: a place behind the end of the log is refused, also while the log is read back", async () => {
  const log = new ReadBack({ held: "0/0" });
  const early = given(log.reader(7));
  log.memory.welcomed(6);
  assert.equal(await early, "event_ahead");
  log.hear(begun, said("One "));
  assert.equal(await given(log.reader(7)), "event_ahead");
});

test("an answer that ends before its server has said how long the log is ends its readers", async () => {
  const log = new ReadBack({ held: "0/0" });
  const reader = given(log.reader(2));
  log.memory.finish(new HoldfastError("not_found", "there is no such stream"));
  assert.equal(await reader, "not_found");
});

test("killed with the call held: a client with a word has the others before the model says more, in pages of a long log", async (t) => {
  const pieces = Array.from({ length: 400 }, (_, at) => `w${at} `);
  const more = Promise.withResolvers<void>();
  let runs = 0;
  // A run that finds its call held says nothing anew.
  const application = scriptedTurn(async (speaker) => {
    const isFirst = ++runs === 1;
    if (isFirst) await speaker.stepStarted(0);
    for (const piece of isFirst ? pieces : []) await speaker.text(piece);
    await more.promise;
    await speaker.text("end.");
    await speaker.stepCompleted(0);
    await speaker.end();
  });
  const world = await World.begin(t, new PacedModel(() => []), { ...ALONE, application });
  const ask = (): Exchange =>
    new Exchange(world.url, bodyOf([user("Tell me")]), { headers: { "idempotency-key": "of-this-one" } });
  const cut = ask();
  await cut.until("w399 ");
  const path = await cut.resumePath();
  cut.hangUp();
  const { ids, streamId } = await cut.reply();
  await world.restart();
  const [session] = world.gateway.sessions;
  assert.equal(session?.answer.streamId, streamId);
  const held = world.gateway.continueHeld(session.principal, streamId, "0/0");
  const read = (id = ""): Exchange =>
    new Exchange(world.url, undefined, { path, method: "GET", headers: { "last-event-id": id } });
  const [late, role, retry] = [read(ids[1]), read(ids[0]), ask()];
  for (const reader of [late, role, retry]) await reader.until("w399 ");
  await held;
  assert.equal(runs, 2);
  await until(() => world.gateway.readers === 3, "all are readers");
  more.resolve();
  assert.equal((await late.reply()).text, `${pieces.slice(1).join("")}end.`);
  for (const reader of [role, retry]) assert.equal((await reader.reply()).text, `${pieces.join("")}end.`);
});
