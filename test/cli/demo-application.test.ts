import assert from "node:assert/strict";
import { test } from "node:test";
import { demoApplication } from "../../src/cli/demo-application.ts";
import type { StreamEvent } from "../../src/client/index.ts";
import { ids, rest, Rig, upTo } from "../e2e/rig.ts";
import { cancel, echoTools, userMessage, wordOf } from "./demo-messages.ts";

const wordsOf = (events: readonly StreamEvent[]): readonly string[] => events.map(({ body }) => wordOf(body));

test("counts, in one step, and ends the turn", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  const stream = await rig.client().open({ first: userMessage("Count to 3 every 1 ms") });
  const events = await rest(stream);
  assert.deepEqual(wordsOf(events), ["stepStarted", "1 ", "2 ", "3 ", "stepCompleted", "turnEnded 1"]);
});

test("echoes anything else in pieces that add up to it", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  const text = `two  words, a\nline and ${"x".repeat(10_000)} 🌊`;
  const stream = await rig.client().open({ first: userMessage(text) });
  const words = wordsOf(await rest(stream));
  assert.equal(words.slice(1, -2).join(""), text);
  assert.ok(words.length > 8);
});

test("A restarted server goes on where the log ends: nothing is said twice", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  const stream = await rig.client().open({ first: userMessage("count to 300 every 1 ms") });
  const events: StreamEvent[] = [];
  for await (const event of stream.events) {
    events.push(event);
    if (event.eventId === 100) await rig.crash();
    if (event.eventId === 200) await rig.restart();
  }
  const text = wordsOf(events).slice(1, -2).join("");
  assert.equal(
    text,
    upTo(300)
      .map((number) => `${number} `)
      .join(""),
  );
  assert.equal(events.at(-1)?.eventId, 303);
});

test("C1: asks the tool once, also over a crash, and tells what it answered", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  let runs = 0;
  const tools = echoTools("hello back", () => runs++);
  const stream = await rig.client({ tools }).open({ first: userMessage("tool hello", ["echo"]) });
  const events: StreamEvent[] = [];
  for await (const event of stream.events) {
    events.push(event);
    if (event.eventId === 5) await rig.crash();
  }
  const words = wordsOf(events);
  assert.deepEqual(words.slice(0, 7), [
    "stepStarted",
    'Asking the tool "echo". ',
    "toolCallStarted",
    "stepCompleted",
    "execServerMessage",
    "toolCallCompleted",
    "stepStarted",
  ]);
  assert.equal(words.slice(7, -2).join(""), `The tool's outcome is "done": hello back`);
  assert.equal(runs, 1);
});

test("without the tool it says what is missing", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  const stream = await rig.client().open({ first: userMessage("tool") });
  assert.match(wordsOf(await rest(stream)).join(""), /Declare a function tool named "echo"/);
});

test("D2: an exec whose client was taken over becomes unknown", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  const idempotencyKey = "demo-takeover";
  const first = rig.process();
  const old = await first.client.open({ idempotencyKey, first: userMessage("tool x", ["echo"]) });
  for await (const event of old.events) if (event.eventId === 5) break;
  first.kill();
  const stream = await rig.client().takeOver(idempotencyKey);
  assert.match(wordsOf(await rest(stream)).join(""), /outcome is "unknown"/);
});

test("D3: abort and cancel end the turn as aborted, in the middle of a pause", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  for (const how of ["abort", "cancel"] as const) {
    const stream = await rig.client().open({ first: userMessage("count to 9 every 60000 ms") });
    const events: StreamEvent[] = [];
    for await (const event of stream.events) {
      events.push(event);
      if (event.eventId !== 1) continue;
      if (how === "abort") void stream.abort();
      else void stream.send(cancel);
    }
    assert.deepEqual(wordsOf(events), ["stepStarted", "turnEnded 2"]);
    assert.deepEqual(ids(events), [1, 2]);
  }
});

test("what it cannot read fails the turn, and says so", async (t) => {
  const rig = await Rig.start(t, demoApplication);
  for (const first of [new Uint8Array([255, 255]), new Uint8Array(), cancel]) {
    const stream = await rig.client().open({ first });
    const last = (await rest(stream)).at(-1);
    assert.ok(last !== undefined);
    assert.match(wordOf(last.body), /turnEnded [23]/);
  }
});
