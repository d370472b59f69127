/**
 * Rough use of the public interface: reused buffers, two at once, too much, too late, wrong calls.
 *
 * Each of these hung, lost something or took the process down once.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClientStream, memoryJournalStore, type Tools } from "../../src/client/index.ts";
import { type ErrorCode, HoldfastError } from "../../src/protocol/errors.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { Application } from "../../src/server/index.ts";
import { answerKindOf, execRequest, outcomeOf, unknownRequest } from "./exec-messages.ts";
import { bytes, rest, Rig, text, turn, until, words } from "./rig.ts";

const repeating: Application = async (stream) => {
  let done = 0;
  for await (const _ of stream.past()) done++;
  for await (const input of stream.inputs) {
    if (input.kind === "close") break;
    if (input.kind === "chunk" && input.seqno >= done) await stream.emit(input.body);
  }
};

/** The same, and says when nothing is left to do until the client speaks. */
const waiting: Application = async (stream) => {
  let done = 0;
  for await (const _ of stream.past()) done++;
  for await (const input of stream.inputs) {
    stream.waits(false);
    if (input.kind === "close") break;
    if (input.kind === "chunk" && input.seqno >= done) await stream.emit(bytes(`heard ${text(input.body)}`));
    stream.waits(true);
  }
};

const refusedWith = (code: ErrorCode) => (error: unknown) =>
  error instanceof HoldfastError && error.code === code;

/** Long enough for what must not happen to happen. */
const aWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30));

async function nextWord(stream: ClientStream): Promise<string> {
  const next = await stream.events.next();
  return next.done === true ? "" : text(next.value.body);
}

test("A5: a client that was fenced and takes the stream back begins a new journal, which the next life can read", async (t) => {
  const rig = await Rig.start(t, repeating);
  const journals = memoryJournalStore();
  const laptop = rig.process({ journals });
  const first = await laptop.client.open({ first: bytes("0") });
  assert.equal(await nextWord(first), "0");
  const phone = await rig.client().takeOver(first.idempotencyKey);
  assert.equal(await first.ended, "fenced");
  const back = await laptop.client.takeOver(first.idempotencyKey);
  await back.send(bytes("1"));
  assert.equal(await phone.ended, "fenced");
  laptop.kill();

  const { resumed, kept } = await rig.client({ journals }).resumeAll();
  assert.deepEqual(kept, []);
  await resumed[0]?.close();
  assert.deepEqual(words(await rest(resumed[0] ?? back)), ["0", "1", ""]);
});

test("a journal that is folded again and again can still be resumed", async (t) => {
  const rig = await Rig.start(t, repeating);
  const journals = memoryJournalStore();
  const laptop = rig.process({ journals, journalRecordsMax: 6 });
  const stream = await laptop.client.open({ first: bytes("0") });
  for (let at = 1; at <= 40; at++) {
    await stream.send(bytes(String(at)));
    await stream.events.next();
  }
  laptop.kill();
  const { resumed } = await rig.client({ journals }).resumeAll();
  await resumed[0]?.close();
  assert.equal((await rest(resumed[0] ?? stream)).length, 42);
});

test("B4: an application may use its buffer again after emit, a client after send", async (t) => {
  const shared = bytes("a");
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(shared);
    shared.set(bytes("b"));
    await stream.emit(shared);
    for await (const input of stream.inputs) if (input.kind === "chunk") await stream.emit(input.body);
  });
  const client = rig.client();
  const said = bytes("c");
  const stream = await client.open({ first: said });
  said.set(bytes("d"));
  assert.deepEqual([await nextWord(stream), await nextWord(stream), await nextWord(stream)], ["a", "b", "c"]);
  const reader = await client.follow(stream.idempotencyKey);
  assert.deepEqual([await nextWord(reader), await nextWord(reader)], ["a", "b"]);
});

test("A2: a client may use a Buffer again after send: what is played back is what was said", async (t) => {
  const rig = await Rig.start(t, repeating);
  const stream = await rig.client().open({ first: bytes("0") });
  const said = Buffer.from("1");
  const sent = stream.send(said);
  said.write("x");
  await sent;
  assert.deepEqual([await nextWord(stream), await nextWord(stream)], ["0", "1"]);
});

test("B4: an application may hand its buffer to another thread after emit", async (t) => {
  const count = 2 * Math.ceil(LIMITS.sendQueueBytesMax / LIMITS.eventBytesMax);
  const rig = await Rig.start(t, async (stream) => {
    for (let at = 0; at < count; at++) {
      const body = new Uint8Array(LIMITS.eventBytesMax);
      const emitted = stream.emit(body);
      structuredClone(body, { transfer: [body.buffer] });
      await emitted;
    }
  });
  const stream = await rig.client().open({ first: bytes("go") });
  const events = await rest(stream);
  assert.deepEqual([events.length, events.at(-1)?.end], [count + 1, "completed"]);
});

test("D2: a reader that leaves does not free the writer's journal for a second writer", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client();
  const stream = await client.open({ first: bytes("0") });
  const reader = await client.follow(stream.idempotencyKey);
  reader.leave();
  await reader.ended;
  await turn();
  await assert.rejects(client.resume(stream.idempotencyKey), refusedWith("busy"));
  await assert.rejects(reader.send(bytes("1")), refusedWith("invalid_argument"));
});

test("E8: a first chunk that is too large is refused before anything begins", async (t) => {
  const rig = await Rig.start(t, repeating);
  const first = new Uint8Array(LIMITS.chunkBytesMax + 1);
  await assert.rejects(rig.client().open({ first }), refusedWith("too_large"));
  assert.equal(rig.connects, 0);
});

test("E8: a hundred open streams are the limit, also when they are opened at the same time", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client();
  const count = LIMITS.openStreamsPerPrincipalMax + 30;
  const streams = await Promise.all(Array.from({ length: count }, () => client.open({ first: bytes("0") })));
  await aWhile();
  const live = streams.filter(({ status }) => status.state === "live").length;
  assert.ok(live <= LIMITS.openStreamsPerPrincipalMax, `${live} streams are open`);
});

test("E8: streams of who counts them itself are as many as it likes, and take nothing from others' hundred", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client();
  const most = LIMITS.openStreamsPerPrincipalMax;
  const open = (count: number): Promise<readonly ClientStream[]> =>
    Promise.all(Array.from({ length: count }, () => client.open({ first: bytes("0") })));
  const isLive = ({ status }: ClientStream): boolean => status.state === "live";
  rig.countsItself = true;
  const apart = await open(most + 5);
  await until(() => apart.every(isLive), "more than a hundred");
  rig.countsItself = false;
  const first = await open(1);
  await until(() => first.every(isLive), "one beside them");
  const native = await open(most - 1);
  await until(() => native.every(isLive), "and a hundred");
  const [more] = await open(1);
  await until(() => more?.status.trouble?.code === "overloaded", "and no more");
});

test("E8: streams that their opener counts itself take nothing from others while they rest, and count once they are over", async (t) => {
  const rig = await Rig.start(t, waiting, { restMs: 1, heartbeatIntervalMs: 1 });
  const client = rig.client();
  const most = LIMITS.openStreamsPerPrincipalMax;
  const open = (count: number): Promise<readonly ClientStream[]> =>
    Promise.all(Array.from({ length: count }, () => client.open({ first: bytes("0") })));
  const isLive = ({ status }: ClientStream): boolean => status.state === "live";
  rig.countsItself = true;
  const apart = await open(3);
  await until(() => apart.every(isLive), "they are open");
  for (const stream of apart) stream.leave();
  await until(() => rig.hosted === 0, "they rest");
  rig.countsItself = false;
  const native = await open(most);
  await until(() => native.every(isLive), "a hundred beside them");
  const [more] = await open(1);
  await until(() => more?.status.trouble?.code === "overloaded", "and no more");
});

test("a turn that works runs on without a client, however long", async (t) => {
  const rig = await Rig.start(t, repeating, { restMs: 1, heartbeatIntervalMs: 1 });
  const stream = await rig.client().open({ first: bytes("0") });
  assert.equal(await nextWord(stream), "0");
  stream.leave();
  await stream.ended;
  await aWhile();
  assert.equal(rig.hosted, 1);
});

test("a turn that only waits for its client is let go of, and begins anew with all that was said when the client is back", async (t) => {
  const rig = await Rig.start(t, waiting, { restMs: 1, heartbeatIntervalMs: 1 });
  const client = rig.client();
  const stream = await client.open({ first: bytes("0") });
  await until(() => stream.status.state === "live", "it is open");
  await stream.send(bytes("1"));
  stream.leave();
  await stream.ended;
  await until(() => rig.hosted === 0, "it rests");
  const again = await client.resume(stream.idempotencyKey);
  await again.send(bytes("2"));
  await again.close();
  assert.deepEqual(words(await rest(again)).filter(Boolean), ["heard 0", "heard 1", "heard 2"]);
});

test("E8: streams that their opener counts itself, and that have ended, make no room for others", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client();
  rig.countsItself = true;
  for (let at = 0; at < 5; at++) {
    const over = await client.open({ first: bytes("0") });
    await over.close();
    await over.ended;
  }
  rig.countsItself = false;
  const most = LIMITS.openStreamsPerPrincipalMax;
  const native = await Promise.all(Array.from({ length: most }, () => client.open({ first: bytes("0") })));
  await until(() => native.every(({ status }) => status.state === "live"), "a hundred");
  const more = await client.open({ first: bytes("0") });
  await until(() => more.status.state === "live" || more.status.trouble !== undefined, "it is judged");
  assert.equal(more.status.trouble?.code, "overloaded");
});

test("E8: streams that come back after a restart count once, so that a new one beside them has its place", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client();
  const count = LIMITS.openStreamsPerPrincipalMax - 10;
  const all = await Promise.all(Array.from({ length: count }, () => client.open({ first: bytes("0") })));
  await until(() => all.every(({ status }) => status.state === "live"), "they are open");
  await rig.restart();
  client.wake();
  const more = await client.open({ first: bytes("0") });
  let trouble: string | undefined;
  more.watch((status) => (trouble ??= status.trouble?.code));
  await until(() => more.status.state === "live", "it is let in");
  assert.equal(trouble, undefined);
});

test("F1: an application that does not wait for its events loses some, is told so, and still ends", async (t) => {
  const rig = await Rig.start(t, async (stream) => {
    for (let at = 0; at < 30; at++) void stream.emit(new Uint8Array(LIMITS.eventBytesMax));
  });
  const stream = await rig.client().open({ first: bytes("go") });
  const events = await rest(stream);
  assert.equal(events.at(-1)?.end, "failed");
  assert.ok(refusedWith("overloaded")(rig.bugs.pop()));
});

test("the credentials are there before the first connection, and one that fails begins nothing", async (t) => {
  const rig = await Rig.start(t, repeating);
  const journals = memoryJournalStore();
  const locked = rig.client({ journals, credentials: () => Promise.reject(new Error("locked")) });
  await assert.rejects(locked.open({ first: bytes("0") }), /locked/);
  await aWhile();
  assert.deepEqual([rig.connects, await journals.list()], [0, []]);
});

test("C1: a result that is too large to send becomes an error that says so", async (t) => {
  const { promise: outcome, resolve } = Promise.withResolvers<string>();
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(execRequest);
    for await (const input of stream.inputs) {
      if (input.kind === "chunk" && input.seqno > 0) return resolve(outcomeOf(input.body));
    }
  });
  const tools: Tools = {
    policy: () => ({ repeatable: false, needsApproval: false }),
    approve: () => Promise.resolve({ allowed: true, untilMs: 0 }),
    run: () => Promise.resolve(new Uint8Array(LIMITS.chunkBytesMax + 1)),
    stopLeftover: () => undefined,
  };
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await outcome, "error");
  await stream.ended;
});

test("a wrong snapshot is the caller's mistake and leaves the stream alone", async (t) => {
  const rig = await Rig.start(t, repeating);
  const stream = await rig.client().open({ first: bytes("0") });
  await stream.events.next();
  assert.throws(() => stream.snapshot(50, bytes("")), RangeError);
  stream.snapshot(1, bytes(""));
  assert.throws(() => stream.snapshot(0, bytes("")), RangeError);
  assert.equal(stream.status.state, "live");
});

test("several may read one stream's events: each goes to one of them, and all of them end", async (t) => {
  const rig = await Rig.start(t, repeating);
  const stream = await rig.client().open({ first: bytes("0") });
  const readers = [rest(stream), rest(stream)];
  await stream.send(bytes("1"));
  await stream.close();
  const events = (await Promise.all(readers)).flat();
  assert.deepEqual(words(events).toSorted(), ["", "0", "1"]);
});

test("a listener that throws is reported and disturbs nobody", async (t) => {
  const rig = await Rig.start(t, repeating);
  const stream = await rig.client().open({ first: bytes("0") });
  stream.watch(() => {
    throw new Error("not my day");
  });
  await until(() => stream.status.state === "live", "live");
  stream.leave();
  await stream.ended;
  assert.ok(rig.bugs.splice(0).every((bug) => bug instanceof Error && bug.message === "not my day"));
});

test("an exec of a kind that this client does not know is answered with a throw, and no tool is asked", async (t) => {
  const { promise: answer, resolve } = Promise.withResolvers<string>();
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(unknownRequest);
    for await (const input of stream.inputs) {
      if (input.kind === "chunk" && input.seqno > 0) return resolve(answerKindOf(input.body));
    }
  });
  const never = (): never => assert.fail("nobody asks a tool");
  const tools: Tools = { policy: never, approve: never, run: never, stopLeftover: never };
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await answer, "throw");
  assert.equal(stream.status.durability, "fsync");
  await stream.ended;
});

test("D2: a fenced client says how many of its chunks are dead", async (t) => {
  const rig = await Rig.start(t, repeating);
  const laptop = rig.client();
  const stream = await laptop.open({ first: bytes("0") });
  await stream.events.next();
  assert.equal(stream.status.unacknowledged, 0);
  await rig.client().takeOver(stream.idempotencyKey);
  await stream.ended;
  assert.deepEqual([stream.status.state, stream.status.unacknowledged], ["fenced", 0]);
});

test("a client that is closed while a stream waits for credentials begins none, and none afterwards", async (t) => {
  const rig = await Rig.start(t, repeating);
  const { promise, resolve } = Promise.withResolvers<string>();
  const journals = memoryJournalStore();
  const client = rig.client({ journals, credentials: () => promise });
  const opening = client.open({ first: bytes("0") });
  const following = client.follow("somebody's");
  await turn();
  await client.close();
  resolve("alice");
  await assert.rejects(opening, refusedWith("unavailable"));
  await assert.rejects(following, refusedWith("unavailable"));
  await assert.rejects(client.open({ first: bytes("1") }), refusedWith("unavailable"));
  await turn();
  assert.deepEqual([rig.connects, await journals.list()], [0, []]);
});

test("while there is no connection the status says why: once, whatever the number of tries", async (t) => {
  const rig = await Rig.start(t, repeating);
  let tries = 0;
  const client = rig.client({
    connect(_meta, handler) {
      tries++;
      setImmediate(() => handler.closed(new HoldfastError("connection_lost", "nobody listens there")));
      return { write: () => 0, end: () => undefined };
    },
  });
  const stream = await client.open({ first: bytes("0") });
  const told: string[] = [];
  stream.watch(({ state, trouble }) => told.push(`${state}: ${trouble?.message}`));
  await until(() => tries > 3, "it tries again");
  stream.leave();
  await stream.ended;
  assert.deepEqual(told, ["connecting: nobody listens there", "ended: undefined"]);
});
