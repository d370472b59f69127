/**
 * A client without a journal, beside its server: the server's log is its memory. It is the same writer at each attach, says what follows
 * the server's number, and promises nothing before the server has it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClientStream, memoryJournalStore } from "../../src/client/index.ts";
import type { Application } from "../../src/server/index.ts";
import { bytes, rest, Rig, text, turn, until, words } from "./rig.ts";

/** Says every chunk back, and once more after a restart those that it has not said back yet; says when another client takes over. */
const echo: Application = async (stream) => {
  let said = 0;
  for await (const _ of stream.past()) said++;
  for await (const input of stream.inputs) {
    if (input.kind === "takeover") await stream.emit(bytes("taken over"));
    if (input.kind === "chunk" && said-- <= 0) await stream.emit(input.body);
    if (input.kind === "close") return;
  }
};

const nextWord = async (stream: ClientStream): Promise<string> => {
  const next = await stream.events.next();
  return next.done === true ? "" : text(next.value.body);
};

const JOURNALS = "none" as const;

test("D1: after a kill of client and server the same writer goes on from the server's number", async (t) => {
  const rig = await Rig.start(t, echo);
  const before = rig.process({ journals: JOURNALS });
  const stream = await before.client.open({ first: bytes("one") });
  assert.equal(await stream.send(bytes("two")), 1);
  before.kill();
  await rig.crash();

  const resumed = await rig.client({ journals: JOURNALS }).resume(stream.idempotencyKey);
  assert.equal(await resumed.send(bytes("three")), 2);
  await resumed.close();
  assert.deepEqual(words(await rest(resumed)), ["one", "two", "three", ""]);
});

test("D1: a connection of the client that was is fenced, whatever it still has to say", async (t) => {
  const rig = await Rig.start(t, echo);
  const old = await rig.client({ journals: JOURNALS }).open({ first: bytes("one") });
  assert.equal(await nextWord(old), "one");
  const resumed = await rig.client({ journals: JOURNALS }).resume(old.idempotencyKey);
  assert.equal(await resumed.send(bytes("two")), 1);
  await assert.rejects(old.send(bytes("other")));
  assert.equal(await old.ended, "fenced");
  await resumed.close();
  assert.deepEqual(words(await rest(resumed)), ["one", "two", ""]);
});

test("A6: a cut connection is the same epoch, and what was said on it arrives once", async (t) => {
  const rig = await Rig.start(t, echo);
  const stream = await rig.client({ journals: JOURNALS }).open({ first: bytes("one") });
  assert.equal(await nextWord(stream), "one");
  const said = stream.send(bytes("two"));
  rig.cut();
  assert.equal(await said, 1);
  await stream.close();
  assert.deepEqual(words(await rest(stream)), ["two", ""]);
});

test("A3, D3: nothing is promised before the server has it: neither what was said nor a stop", async (t) => {
  const rig = await Rig.start(t, echo);
  const client = rig.process({ journals: JOURNALS });
  const stream = await client.client.open({ first: bytes("one") });
  assert.equal(await nextWord(stream), "one");
  await rig.loseStore();
  let promised = 0;
  const count = (): number => promised++;
  stream.send(bytes("two")).then(count, () => undefined);
  stream.abort().then(count, () => undefined);
  for (let turns = 0; turns < 50; turns++) await turn();
  assert.equal(promised, 0);
  await rig.restart();
  await until(() => promised === 2, "the server has both");
});

test("D3: a stop is promised when it is durable, however long the turn takes to end", async (t) => {
  const turned = Promise.withResolvers<void>();
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(bytes("begun"));
    await turned.promise;
  });
  const stream = await rig.client({ journals: JOURNALS }).open({ first: bytes("one") });
  assert.equal(await nextWord(stream), "begun");
  await stream.abort();
  assert.notEqual(stream.status.state, "ended");
  turned.resolve();
});

test("D4: a stream that never was is not found", async (t) => {
  const rig = await Rig.start(t, echo);
  const stream = await rig.client({ journals: JOURNALS }).resume("never");
  assert.equal(await stream.ended, "lost");
  assert.equal(stream.status.failure?.code, "not_found");
});

test("C2: a client without journals cannot have tools", async (t) => {
  const rig = await Rig.start(t, echo);
  const tools = {
    policy: () => ({ repeatable: true, needsApproval: false }),
    approve: async () => ({ allowed: true, untilMs: 0 }),
    run: async () => new Uint8Array(),
    stopLeftover: () => undefined,
  };
  assert.throws(() => rig.client({ journals: JOURNALS, tools }), { code: "invalid_argument" });
});

test("D4: whoever has waited for the end of a stream may forget it at once, with a journal as without", async (t) => {
  const rig = await Rig.start(t, echo);
  for (const options of [{}, { journals: JOURNALS }]) {
    const client = rig.client(options);
    const stream = await client.open({ first: bytes("one") });
    await stream.close();
    await rest(stream);
    assert.equal(await stream.ended, "completed");
    await client.forget(stream.idempotencyKey);
  }
});

test("F2: a client that forgets what has ended leaves no journal, not even one whose removal a crash has cut off", async (t) => {
  const rig = await Rig.start(t, echo);
  const journals = memoryJournalStore();
  const client = rig.client({ journals, forgetsEnded: true });
  const stream = await client.open({ first: bytes("one") });
  await stream.close();
  await rest(stream);
  await stream.ended;
  await until(async () => (await journals.list()).length === 0, "its journal is gone");

  const kept = rig.client({ journals });
  const left = await kept.open({ first: bytes("one") });
  await left.close();
  await rest(left);
  await left.ended;
  assert.deepEqual(await journals.list(), [left.idempotencyKey]);
  await assert.rejects(client.resume(left.idempotencyKey), { code: "stream_ended" });
  assert.deepEqual(await journals.list(), []);
});
