import assert from "node:assert/strict";
import { test } from "node:test";
import { splitStream, type StreamEvent } from "../../../src/client/index.ts";
import { encodeServer, encodeUpdate } from "./agent-rig.ts";

const event = (eventId: number, body: Uint8Array, end?: StreamEvent["end"]): StreamEvent => ({
  eventId,
  body,
  end,
});
const text = (eventId: number, words: string): StreamEvent =>
  event(eventId, encodeUpdate({ case: "textDelta", value: { text: words } }));
const kv = (eventId: number): StreamEvent =>
  event(eventId, encodeServer({ case: "kvServerMessage", value: { id: eventId } }));

async function* from(events: readonly StreamEvent[]): AsyncGenerator<StreamEvent> {
  yield* events;
}

async function all<Message>(stream: AsyncIterable<Message>): Promise<Message[]> {
  const messages: Message[] = [];
  for await (const message of stream) messages.push(message);
  return messages;
}

/** Timers that go off when the test says so. */
function impatience() {
  const waiting = new Set<() => void>();
  return {
    after: (_: number, run: () => void) => {
      waiting.add(run);
      return () => waiting.delete(run);
    },
    runOut: () => {
      for (const run of waiting) run();
    },
    get isWaiting() {
      return waiting.size > 0;
    },
  };
}

const turns = async (count = 20): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
};

test("each message goes to its sub-stream, in order, with its event id", async () => {
  const exec = encodeServer({ case: "execServerMessage", value: { execId: "e" } });
  const control = encodeServer({
    case: "execServerControlMessage",
    value: { message: { case: "abort", value: { execId: "e" } } },
  });
  const query = encodeServer({ case: "interactionQuery", value: { id: 1 } });
  const checkpoint = encodeServer({ case: "conversationCheckpointUpdate", value: {} });
  const ended = encodeUpdate({ case: "turnEnded", value: { outputTokens: 3 } });
  const split = splitStream(
    from([
      text(1, "a"),
      event(2, exec),
      kv(3),
      event(4, query),
      event(5, checkpoint),
      event(6, control),
      event(7, ended, "completed"),
    ]),
  );
  const [interaction, execs, checkpoints, kvs] = await Promise.all([
    all(split.interaction),
    all(split.exec),
    all(split.checkpoint),
    all(split.kv),
  ]);
  assert.deepEqual(
    interaction.map(({ eventId, message }) => [eventId, message.case]),
    [
      [1, "interactionUpdate"],
      [4, "interactionQuery"],
      [7, "interactionUpdate"],
    ],
  );
  assert.deepEqual(
    execs.map(({ eventId, message }) => [eventId, message.case]),
    [
      [2, "execServerMessage"],
      [6, "execServerControlMessage"],
    ],
  );
  assert.deepEqual([checkpoints.map((one) => one.eventId), kvs.map((one) => one.message.id)], [[5], [3]]);
  await split.done;
});

for (const [end, reason] of [
  ["completed", 1],
  ["aborted", 2],
  ["failed", 3],
] as const) {
  test(`a stream that ends as ${end} without a word says that the turn ended`, async () => {
    const split = splitStream(from([text(1, "a"), event(2, new Uint8Array(), end)]));
    const last = (await all(split.interaction)).at(-1);
    assert.equal(last?.eventId, 2);
    const said = last.message.case === "interactionUpdate" ? last.message.value.message : undefined;
    assert.equal(said?.case === "turnEnded" ? said.value.reason : 0, reason);
  });
}

test("a message of an unknown kind is reported and skipped", async () => {
  const unknown: number[] = [];
  // Field 60, which no version has.
  const split = splitStream(from([event(1, Uint8Array.of(0xe2, 3, 0)), text(2, "a")]), {
    onUnknown: (eventId) => unknown.push(eventId),
  });
  assert.deepEqual(
    (await all(split.interaction)).map(({ eventId }) => eventId),
    [2],
  );
  assert.deepEqual(unknown, [1]);
});

test("what is no agent message fails every sub-stream", async () => {
  const split = splitStream(from([text(1, "a"), event(2, Uint8Array.of(0xff, 0xff))]));
  await assert.rejects(split.done, { code: "invalid_frame" });
  await assert.rejects(all(split.kv), { code: "invalid_frame" });
  await assert.rejects(all(split.interaction), { code: "invalid_frame" });
});

test("F2: a sub-stream that nobody reads holds nobody up, is told to nobody, and is let go at its bound", async () => {
  const slow: string[] = [];
  const events = Array.from({ length: 100 }, (_, at) => (at % 2 === 0 ? text(at, "a") : kv(at)));
  const split = splitStream(from(events), { countMax: 5, onSlow: (name) => slow.push(name) });
  assert.equal((await all(split.kv)).length, 50);
  await split.done;
  assert.deepEqual(slow, []);
  await assert.rejects(all(split.interaction), { code: "overloaded", message: /50 messages/ });
});

test("what fits the bound is there for a reader that comes late", async () => {
  const split = splitStream(from([text(1, "a"), text(2, "b"), kv(3)]), { countMax: 5 });
  await split.done;
  assert.equal((await all(split.interaction)).length, 2);
});

test("a slow reader holds up the others until patience runs out, then it is cut and the others go on", async () => {
  const slow: string[] = [];
  const clock = impatience();
  const events = [...Array.from({ length: 10 }, (_, at) => text(at + 1, "a")), kv(11)];
  const split = splitStream(from(events), {
    countMax: 3,
    onSlow: (name) => slow.push(name),
    after: clock.after,
  });
  const first = await split.interaction.next();
  assert.equal(first.done === true ? undefined : first.value.eventId, 1);
  const others = all(split.kv);
  await turns();
  assert.ok(clock.isWaiting, "the events wait for the slow reader");
  clock.runOut();
  assert.equal((await others).length, 1);
  assert.deepEqual(slow, ["interaction"]);
  await assert.rejects(split.interaction.next(), { code: "overloaded" });
});

test("a reader that catches up in time loses nothing", async () => {
  const clock = impatience();
  const events = Array.from({ length: 50 }, (_, at) => text(at + 1, "a"));
  const split = splitStream(from(events), { countMax: 3, after: clock.after });
  const ids: number[] = [];
  for await (const { eventId } of split.interaction) {
    ids.push(eventId);
    await turns(2);
  }
  assert.deepEqual(
    ids,
    events.map(({ eventId }) => eventId),
  );
  assert.ok(!clock.isWaiting, "no timer is left");
});

test("the bound counts bytes too", async () => {
  const clock = impatience();
  const events = Array.from({ length: 4 }, (_, at) => text(at + 1, "x".repeat(1_000)));
  const split = splitStream(from(events), { bytesMax: 1_500, after: clock.after });
  await split.interaction.next();
  await turns();
  assert.ok(clock.isWaiting, "three messages of a thousand bytes do not fit");
  assert.equal((await all(split.interaction)).length, 3);
});

test("a reader that leaves is not waited for", async () => {
  const events = Array.from({ length: 50 }, (_, at) => text(at + 1, "a"));
  const split = splitStream(from(events), { countMax: 3, patienceMs: 1e9 });
  for await (const _ of split.interaction) break;
  await split.done;
});
