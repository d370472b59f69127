/**
 * Server and client end to end in one process: production drivers, memory transport, memory log.
 *
 * What the simulator shows for thousands of schedules is shown here once each, through the public
 * interface and on the real clock.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, type ClientStream, memoryJournalStore } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { Application, ClientInput } from "../../src/server/index.ts";
import { bytes, ids, rest, Rig, text, turn, until, upTo, words } from "./rig.ts";

/** Says the numbers up to the one that was asked for. After a restart it goes on from its own log. */
const counting: Application = async (stream) => {
  let said = 0;
  for await (const _ of stream.past()) said++;
  for await (const input of stream.inputs) {
    if (input.kind !== "chunk") continue;
    const goal = Number(text(input.body));
    while (said < goal && !stream.signal.aborted) {
      await turn();
      await stream.emit(bytes(String(++said)));
    }
    await stream.end(bytes("end"));
    return;
  }
};

/** Repeats every chunk, until the client has said everything. */
const echoing: Application = async (stream) => {
  let done = 0;
  for await (const _ of stream.past()) done++;
  let at = 0;
  for await (const input of stream.inputs) {
    if (input.kind === "close") break;
    if (input.kind === "chunk" && ++at > done) await stream.emit(input.body);
  }
};

const refusedWith = (code: string) => (error: unknown) =>
  error instanceof HoldfastError && error.code === code;

const failureOf = async (stream: ClientStream): Promise<unknown> => {
  await assert.rejects(rest(stream));
  return stream.status.failure;
};

test("A1, B1, B6: what is said arrives in order, what is answered comes back in order, and the end is an event", async (t) => {
  const rig = await Rig.start(t, echoing);
  const stream = await rig.client().open({ first: bytes("a") });
  assert.deepEqual([await stream.send(bytes("b")), await stream.send(bytes("c"))], [1, 2]);
  await stream.close();
  const events = await rest(stream);
  assert.deepEqual(words(events), ["a", "b", "c", ""]);
  assert.deepEqual(ids(events), [1, 2, 3, 4]);
  assert.deepEqual(
    events.map(({ end }) => end),
    [undefined, undefined, undefined, "completed"],
  );
  assert.equal(await stream.ended, "completed");
  assert.equal(stream.status.state, "ended");
  await assert.rejects(stream.send(bytes("late")), refusedWith("stream_ended"));
});

test("B4: over many cuts every event comes once and in order", async (t) => {
  let allowed = 10;
  const rig = await Rig.start(t, async (stream) => {
    for (let said = 1; said <= 60; said++) {
      await stream.emit(bytes(String(said)));
      await until(() => said !== allowed, "the next ten are allowed");
    }
  });
  const stream = await rig.client().open({ first: bytes("go") });
  const seen: number[] = [];
  for await (const { eventId } of stream.events) {
    seen.push(eventId);
    if (eventId !== allowed) continue;
    const before = rig.connects;
    rig.cut();
    await until(() => rig.connects > before && stream.status.state === "live", "live again");
    allowed += 10;
  }
  assert.deepEqual(seen, upTo(61));
  assert.equal(rig.connects, 7);
});

test("B1: a frame that arrives twice is taken once", async (t) => {
  const rig = await Rig.start(t, counting);
  const stream = await rig.client().open({ first: bytes("20") });
  const seen: number[] = [];
  for await (const { eventId } of stream.events) {
    seen.push(eventId);
    rig.stutter();
  }
  assert.deepEqual(seen, upTo(21));
});

test("A2, A6: chunks said around cuts are each taken once", async (t) => {
  const rig = await Rig.start(t, echoing);
  const stream = await rig.client().open({ first: bytes("0") });
  for (let seqno = 1; seqno < 40; seqno++) {
    assert.equal(await stream.send(bytes(String(seqno))), seqno);
    if (seqno % 7 === 0) rig.cut();
    if (seqno % 5 === 0) await turn();
  }
  await stream.close();
  assert.deepEqual(words(await rest(stream)), [...upTo(40).map((number) => String(number - 1)), ""]);
});

for (const how of ["restart", "crash"] as const) {
  test(`A3, B2: a ${how} of the server loses nothing, repeats nothing, and the application goes on`, async (t) => {
    const rig = await Rig.start(t, counting);
    const stream = await rig.client().open({ first: bytes("40") });
    const seen: string[] = [];
    for await (const { eventId, body } of stream.events) {
      seen.push(text(body));
      if (eventId === 15 || eventId === 30) await rig[how]();
    }
    assert.deepEqual(seen, [...upTo(40).map(String), "end"]);
    assert.equal(await stream.ended, "completed");
  });
}

test("B4: what is replayed from the store is what was said live, event by event", async (t) => {
  const words = ["Hold", "fast ", "keeps ", "it."];
  const rig = await Rig.start(t, async (stream) => {
    for (const word of words) await stream.emit(bytes(word));
  });
  const client = rig.client();
  const stream = await client.open({ first: bytes("go") });
  const live = await rest(stream);
  assert.deepEqual(ids(live), [1, 2, 3, 4, 5]);
  await rig.restart();
  assert.deepEqual(await rest(await client.follow(stream.idempotencyKey)), live);
});

test("D3: an abort stops the application, is recorded, and is the end", async (t) => {
  let refused: unknown;
  const rig = await Rig.start(t, async (stream) => {
    for (let at = 0; !stream.signal.aborted; at++) {
      await stream.emit(bytes(String(at)));
      await turn();
    }
    await assert.rejects(stream.emit(bytes("too late")), (error) => {
      refused = error;
      return true;
    });
  });
  const client = rig.client();
  const stream = await client.open({ first: bytes("go") });
  await stream.events.next();
  await stream.abort();
  const events = await rest(stream);
  assert.equal(events.at(-1)?.end, "aborted");
  assert.equal(await stream.ended, "aborted");
  assert.ok(refusedWith("stream_ended")(refused));
  const again = await rest(await client.follow(stream.idempotencyKey));
  assert.equal(again.at(-1)?.end, "aborted");
});

test("D3: an abort that was said while nothing was connected arrives later", async (t) => {
  const rig = await Rig.start(t, async (stream) => {
    await new Promise<void>((resolve) => stream.signal.addEventListener("abort", () => resolve()));
  });
  const stream = await rig.client().open({ first: bytes("go") });
  await until(() => stream.status.state === "live", "live");
  rig.cut();
  await stream.abort();
  await rest(stream);
  assert.equal(await stream.ended, "aborted");
});

test("D1, D2: a takeover fences the client before, and numbering goes on", async (t) => {
  const inputs: ClientInput[] = [];
  const rig = await Rig.start(t, async (stream) => {
    for await (const input of stream.inputs) {
      inputs.push(input);
      if (input.kind === "close") return;
      await stream.emit(bytes(`heard ${input.kind}`));
    }
  });
  const phone = rig.client();
  const first = await phone.open({ first: bytes("from the phone") });
  await first.events.next();
  const second = await rig.client().takeOver(first.idempotencyKey);
  assert.equal(await first.ended, "fenced");
  assert.equal(first.status.state, "fenced");
  await assert.rejects(phone.resume(first.idempotencyKey), refusedWith("fenced"));
  assert.equal(await second.send(bytes("from the laptop")), 1);
  await second.close();
  assert.deepEqual(words(await rest(second)), ["heard chunk", "heard takeover", "heard chunk", ""]);
  assert.deepEqual(
    inputs.map(({ kind }) => kind),
    ["chunk", "takeover", "chunk", "close"],
  );
});

test("D2: a reader sees everything from the beginning, and its abort counts", async (t) => {
  const rig = await Rig.start(t, async (stream) => {
    for (let at = 1; at <= 10; at++) await stream.emit(bytes(String(at)));
    await new Promise<void>((resolve) => stream.signal.addEventListener("abort", () => resolve()));
  });
  const client = rig.client();
  const writer = await client.open({ first: bytes("go") });
  const reader = await client.follow(writer.idempotencyKey);
  const seen: number[] = [];
  for await (const { eventId } of reader.events) {
    seen.push(eventId);
    if (eventId === 5) rig.cut();
    if (eventId === 10) await reader.abort();
  }
  assert.deepEqual(seen, upTo(11));
  assert.deepEqual(ids(await rest(writer)), upTo(11));
  assert.equal(await writer.ended, "aborted");
});

test("D7: a stream that has been quiet for longer than the window is kept: the server and the journal still have it", async (t) => {
  const rig = await Rig.start(t, echoing);
  const journals = memoryJournalStore();
  const first = rig.process({ journals });
  const stream = await first.client.open({ first: bytes("go") });
  await stream.events.next();
  for (let turns = 0; turns < 10; turns++) await turn();
  first.kill();
  await new Promise((resolve) => setTimeout(resolve, 30));
  const seen: ClientStream[] = [];
  const late = rig.client({ journals, stream: { retryLookbackWindowMs: 10 } });
  const { resumed, kept, cleared, aborted } = await late.resumeAll((one) => void seen.push(one));
  assert.deepEqual([resumed, cleared, aborted], [[], [], []]);
  assert.deepEqual(
    seen.map(({ status }) => [status.state, status.isSkipped]),
    [["ended", true]],
  );
  assert.deepEqual(
    kept.map((one) => one.idempotencyKey),
    [stream.idempotencyKey],
  );
  assert.match(kept[0]?.reason ?? "", /retryLookbackWindowMs.*resume\(idempotencyKey\)/);
  // The server has it still, and so has the journal: by its name it goes on, from where it was.
  const again = await late.resume(stream.idempotencyKey);
  await again.send(bytes("still there"));
  await again.close();
  assert.deepEqual(words(await rest(again)), ["go", "still there", ""]);
});

test("B3: resumeAll goes on from the last snapshot after the client's process died, and clears what ended", async (t) => {
  const rig = await Rig.start(t, counting);
  const journals = memoryJournalStore();
  const dying = rig.process({ journals });
  const lost = await dying.client.open({ first: bytes("30") });
  for await (const { eventId } of lost.events) {
    if (eventId === 8) lost.snapshot(eventId, bytes("eight so far"));
    if (eventId === 12) break;
  }
  dying.kill();

  const client = rig.client({ journals });
  const report = await client.resumeAll();
  const [resumed] = report.resumed;
  assert.ok(resumed !== undefined && report.resumed.length === 1);
  assert.equal(resumed.idempotencyKey, lost.idempotencyKey);
  assert.equal(resumed.restored?.cursor, 8);
  assert.equal(text(resumed.restored?.state ?? bytes("")), "eight so far");
  assert.deepEqual(ids(await rest(resumed)), upTo(31).slice(8));
  await until(() => resumed.status.state === "ended", "the end");
  await turn();
  assert.deepEqual((await client.resumeAll()).cleared, [lost.idempotencyKey]);
  assert.deepEqual(await journals.list(), []);
});

test("D4, E1, E2: a wrong stream key, another principal and no stream at all get one and the same answer", async (t) => {
  const rig = await Rig.start(t, echoing);
  const { idempotencyKey } = await rig.client().open({ first: bytes("secret") });
  const wrongKey = (): Client => rig.client({ homeKey: new Uint8Array(32).fill(8) });
  const stranger = rig.client({ credentials: async () => "mallory" });
  const answers = [
    await failureOf(await wrongKey().follow(idempotencyKey)),
    await failureOf(await wrongKey().takeOver(idempotencyKey)),
    await failureOf(await wrongKey().open({ idempotencyKey })),
    await failureOf(await stranger.follow(idempotencyKey)),
    await failureOf(await rig.client().follow("no-such-stream")),
  ];
  for (const answer of answers) {
    assert.deepEqual(answer, {
      kind: "give_up",
      code: "not_found",
      message: "no such stream, or not with this stream key",
    });
  }
});

test("E8: a chunk and an event of the largest size pass, one byte more is refused and harms nothing", async (t) => {
  const tooLarge: unknown[] = [];
  const rig = await Rig.start(t, async (stream) => {
    for await (const input of stream.inputs) {
      if (input.kind === "close") return;
      if (input.kind !== "chunk") continue;
      await assert.rejects(stream.emit(new Uint8Array(LIMITS.eventBytesMax + 1)), (error) => {
        tooLarge.push(error);
        return true;
      });
      await stream.emit(input.body.subarray(0, LIMITS.eventBytesMax));
    }
  });
  const stream = await rig.client().open();
  await assert.rejects(stream.send(new Uint8Array(LIMITS.chunkBytesMax + 1)), refusedWith("too_large"));
  assert.equal(await stream.send(new Uint8Array(LIMITS.chunkBytesMax).fill(3)), 0);
  await stream.close();
  const [event, end] = await rest(stream);
  assert.deepEqual(event?.body, new Uint8Array(LIMITS.eventBytesMax).fill(3));
  assert.equal(end?.end, "completed");
  assert.ok(tooLarge.every(refusedWith("too_large")) && tooLarge.length === 1);
});

test("D5: with the store down a new stream runs degraded and says so, an existing one waits", async (t) => {
  const rig = await Rig.start(t, counting);
  const client = rig.client();
  const existing = await client.open({ first: bytes("1000000") });
  await existing.events.next();
  await rig.loseStore();
  const fresh = await client.open({ first: bytes("3") });
  const states = new Set<string>();
  fresh.watch(({ state }) => states.add(state));
  const events = await rest(fresh);
  assert.ok(states.has("degraded"));
  assert.deepEqual(words(events), ["1", "2", "3", "end"]);
  assert.deepEqual(ids(events), [0, 0, 0, 0]);
  await until(() => existing.status.isReconnecting, "reconnecting");
  await existing.abort();
  await rig.restart();
  await rest(existing);
  assert.equal(await existing.ended, "aborted");
});
