import assert from "node:assert/strict";
import { test } from "node:test";
import type { Application } from "../../../src/server/index.ts";
import { Dialed, READ, transport, TRANSPORTS } from "./dial.ts";
import { slowReader } from "./slow-reader.ts";
import { echo, eventually, startHttp, type Version, VERSIONS } from "./rig.ts";

const KIB = 1024;

for (const name of TRANSPORTS) {
  test(`a stream over ${name}: attach, chunk, ack, event, end`, async (t) => {
    const rig = await startHttp(t);
    const dialed = new Dialed(transport(t, rig, name), "whole");
    const welcome = await dialed.welcomed();
    assert.equal(welcome.durability, "fsync");
    dialed.chunk(0, Buffer.from("hello"));
    const event = await dialed.get("event");
    assert.equal(Buffer.from(event.body).toString(), "hello");
    await dialed.get("ack", ({ seqno }) => seqno === 0);
    dialed.say({ kind: "close", seqno: 1, writerEpoch: 1 });
    await dialed.get("event", ({ end }) => end === "completed");
    dialed.end();
    await eventually(
      () => rig.logLines.some((line) => line.includes('"streamEnded":true')),
      "a line says so",
    );
  });

  test(`E8: 16 readers may follow a stream over ${name}, a 17th is overloaded`, async (t) => {
    const rig = await startHttp(t);
    const connect = transport(t, rig, name);
    await new Dialed(connect, "read").welcomed();
    const readers = Array.from({ length: 16 }, () => new Dialed(connect, "read", READ));
    await Promise.all(readers.map((reader) => reader.welcomed()));
    const late = new Dialed(connect, "read", READ);
    assert.equal((await late.get("error")).code, "overloaded");
    readers[0]?.end();
    await eventually(async () => {
      const next = new Dialed(connect, "read", READ);
      await Promise.race([next.welcomed().catch(() => undefined), next.closed_]);
      return next.frames.some(({ kind }) => kind === "welcome");
    }, "a place that was left is free");
  });
}

test("E8: a principal may have 100 open streams, the 101st is overloaded, and others are not touched", async (t) => {
  const rig = await startHttp(t);
  const connect = transport(t, rig, "http2");
  const streams = Array.from(
    { length: 100 },
    (_, at) => new Dialed(connect, `stream ${at}`.replace(" ", "-")),
  );
  await Promise.all(streams.map((stream) => stream.welcomed()));
  assert.equal((await new Dialed(connect, "one-more").get("error")).code, "overloaded");
  await new Dialed(connect, "bobs", undefined, "hf_bob").welcomed();
  const [first] = streams;
  first?.say({ kind: "close", seqno: 0, writerEpoch: 1 });
  await first?.get("event", ({ end }) => end !== undefined);
  await new Dialed(connect, "one-more").welcomed();
});

test("E8: a reader that does not read is cut, costs bounded memory, and can resume", async (t) => {
  const events = 400;
  let written = 0;
  const many: Application = async (stream) => {
    for (let at = 0; at < events; at++) await stream.emit(Buffer.alloc(64 * KIB, at));
    written++;
    await echo(stream);
  };
  const sender = { pauseBytes: 1024 * KIB, slowReaderMs: 3_000 };
  const rig = await startHttp(t, {
    application: many,
    server: { host: { sender, heartbeatIntervalMs: 50 } },
  });
  const connect = transport(t, rig, "http2");
  const nameOf = (version: Version): string => `slow-${version}`;
  for (const version of VERSIONS) {
    const writer = new Dialed(connect, nameOf(version));
    await writer.welcomed();
    // On a busy machine it would be a slow reader too.
    writer.end();
    await writer.closed_;
  }
  await eventually(() => written === VERSIONS.length, "all events are there");
  const before = rig.server.counters.refusals.overloaded;
  const cutAndBack = async (version: Version): Promise<void> => {
    const name = nameOf(version);
    const slow = await slowReader(t, rig, version, name);
    await eventually(
      () => rig.server.counters.refusals.overloaded - before >= 2,
      "both slow readers are cut",
    );
    slow.destroy();
    // On a busy machine it may be cut once more: that is what resuming is for.
    const ids: number[] = [];
    while (ids.at(-1) !== events) {
      const again = new Dialed(connect, name, { ...READ, eventId: ids.at(-1) ?? 100 });
      await again.get("event", ({ eventId }) => eventId === events).catch(() => again.closed_);
      ids.push(...again.frames.flatMap((frame) => (frame.kind === "event" ? [frame.eventId] : [])));
      again.end();
    }
    const missed = Array.from({ length: events - 100 }, (_, at) => 101 + at);
    assert.deepEqual(ids, missed, "from its cursor, without a gap");
  };
  await Promise.all(VERSIONS.map(cutAndBack));
});
