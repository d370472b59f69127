import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { AppendOutcome } from "../../src/protocol/append-codec.ts";
import type { ClientFrame, ServerFrame, WelcomeFrame } from "../../src/protocol/frames.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { SplitConnection } from "../../src/transport/node/split-connection.ts";
import type { Wire } from "../../src/transport/index.ts";
import { serverFrames } from "../protocol/fixtures/stream-messages.ts";
import { ATTACH } from "./split-rig.ts";

const META = { principal: "alice", idempotencyKey: "key", streamKey: new Uint8Array(32) };

const chunk = (seqno: number, bytes = 1): ClientFrame => ({
  kind: "chunk",
  seqno,
  writerEpoch: 1,
  body: new Uint8Array(bytes),
});

function welcome(nextSeqno: number): WelcomeFrame {
  const frame = serverFrames["response welcome_message"];
  assert.ok(frame?.kind === "welcome");
  return { ...frame, degraded: false, nextSeqno };
}

/** A connection whose server side is the test. */
function rig(firstChunk?: Uint8Array, role: "writer" | "reader" = "writer") {
  const received: ClientFrame[] = [];
  const closes: (string | undefined)[] = [];
  const wires: Wire<ServerFrame>[] = [];
  const connection = new SplitConnection(
    META,
    "tag",
    { write: () => 0, end: () => undefined },
    (_meta, wire) => {
      wires.push(wire);
      return {
        received: (frame) => void received.push(frame),
        drained: () => undefined,
        closed: (reason) => void closes.push(reason?.code),
      };
    },
    () => undefined,
  );
  const append = (...frames: ClientFrame[]): Promise<AppendOutcome> =>
    new Promise((resolve) => connection.append(frames, resolve));
  const [wire] = wires;
  assert.ok(wire !== undefined);
  void append({ ...ATTACH, role, ...(firstChunk === undefined ? {} : { fresh: true, firstChunk }) });
  const seqnos = (): number[] => received.flatMap((frame) => (frame.kind === "chunk" ? [frame.seqno] : []));
  return { connection, wire, append, seqnos, received, closes };
}

const isAnswered = async (answer: Promise<unknown>): Promise<boolean> => {
  const turn = new Promise((resolve) => setImmediate(() => resolve("not yet")));
  return (await Promise.race([answer, turn])) !== "not yet";
};

test("F2: a reader's chunks are not held, however early they come: they are refused at once", () => {
  const { wire, append, seqnos } = rig(undefined, "reader");
  wire.write([welcome(0)]);
  void append(chunk(7));
  assert.deepEqual(seqnos(), [7]);
});

test("A1: appends that overtake each other are handed over in order of their seqnos, each once", () => {
  const order = fc.shuffledSubarray(
    Array.from({ length: 12 }, (_, at) => at),
    { minLength: 12 },
  );
  fc.assert(
    fc.property(order, fc.integer({ min: 0, max: 5 }), (seqnos, base) => {
      const { wire, connection, seqnos: handed } = rig();
      wire.write([welcome(base)]);
      for (const seqno of seqnos) connection.append([chunk(base + seqno)], () => undefined);
      assert.deepEqual(
        handed(),
        seqnos.map((_, at) => base + at),
      );
    }),
  );
});

test("A3: an append is answered when acks cover all of it, not before", async () => {
  const { wire, append } = rig();
  wire.write([welcome(0)]);
  const answer = append(chunk(0), chunk(1));
  assert.equal(await isAnswered(answer), false);
  wire.write([{ kind: "ack", seqno: 0 }]);
  assert.equal(await isAnswered(answer), false);
  wire.write([{ kind: "ack", seqno: 1 }]);
  assert.deepEqual(await answer, { nextSeqno: 2 });
});

test("A6: a heartbeat that shows a chunk durable answers its append, and so does a welcome", async () => {
  const { wire, append } = rig(new Uint8Array(1));
  wire.write([welcome(0)]);
  const answer = append(chunk(1));
  wire.write([{ kind: "heartbeat", nextSeqno: 2, eventHead: 0, aborted: false }]);
  assert.deepEqual(await answer, { nextSeqno: 2 });
  assert.deepEqual(await append({ kind: "heartbeat", runningExecIds: [] }), { nextSeqno: 2 });
});

test("a chunk behind the one in the attach need not wait for its ack to be handed over", () => {
  const { wire, connection, seqnos } = rig(new Uint8Array(1));
  wire.write([welcome(0)]);
  connection.append([chunk(1)], () => undefined);
  assert.deepEqual(seqnos(), [1]);
});

test("D3: an abort does not wait behind a gap", () => {
  const { wire, connection, received } = rig();
  wire.write([welcome(0)]);
  connection.append([chunk(5), { kind: "abort" }], () => undefined);
  assert.deepEqual(
    received.map(({ kind }) => kind),
    ["attach", "abort"],
  );
});

test("an append that will never be durable is answered with the reason", async () => {
  const refused = rig();
  refused.wire.write([welcome(0)]);
  const first = refused.append(chunk(0));
  refused.wire.write([{ kind: "error", code: "fenced", message: "another", retryAfterMs: undefined }]);
  const outcome = await first;
  assert.equal("error" in outcome && outcome.error.code, "fenced");

  const ended = rig();
  ended.wire.write([welcome(0)]);
  const [durable, late] = [ended.append(chunk(0)), ended.append(chunk(1))];
  const end = { kind: "event", eventId: 1, body: new Uint8Array(), end: "completed" } as const;
  // In one write, or in two within the same turn.
  ended.wire.write([end]);
  ended.wire.write([{ kind: "ack", seqno: 0 }]);
  assert.deepEqual(await durable, { nextSeqno: 1 });
  const lateOutcome = await late;
  assert.equal("error" in lateOutcome && lateOutcome.error.code, "stream_ended");

  const broken = rig();
  broken.wire.write([welcome(0)]);
  const lost = broken.append(chunk(0));
  broken.connection.close(undefined);
  const lostOutcome = await lost;
  assert.equal("error" in lostOutcome && lostOutcome.error.code, "connection_lost");
  assert.deepEqual(broken.closes, [undefined]);
});

test("E8: 256 early chunks are held, one more is handed over for the server to refuse", () => {
  const { wire, connection, seqnos } = rig();
  wire.write([welcome(0)]);
  const early = Array.from({ length: LIMITS.unackedChunksMax }, (_, at) => chunk(at + 1));
  connection.append(early, () => undefined);
  assert.deepEqual(seqnos(), []);
  connection.append([chunk(LIMITS.unackedChunksMax + 1)], () => undefined);
  assert.deepEqual(seqnos(), [LIMITS.unackedChunksMax + 1]);
});

test("E8: 8 MiB of early chunks are held, a byte more is handed over", () => {
  const { wire, connection, seqnos } = rig();
  wire.write([welcome(0)]);
  for (let seqno = 1; seqno <= 8; seqno++)
    connection.append([chunk(seqno, LIMITS.chunkBytesMax)], () => undefined);
  assert.deepEqual(seqnos(), []);
  connection.append([chunk(9)], () => undefined);
  assert.deepEqual(seqnos(), [9]);
});

test("F2: a client cannot have any number of appends waiting", async () => {
  const { wire, connection, append } = rig();
  wire.write([welcome(0)]);
  const answers = Array.from({ length: 65 }, (_, at) => append(chunk(at + 1)));
  const outcomes = await Promise.all(answers);
  for (const outcome of outcomes) assert.equal("error" in outcome && outcome.error.code, "overloaded");
  assert.equal(connection.isEnded, true);
});

test("a degraded stream acknowledges nothing, so an append is answered at once", async () => {
  const { wire, append } = rig();
  wire.write([{ ...welcome(0), degraded: true }]);
  assert.deepEqual(await append(chunk(0)), { nextSeqno: 0 });
});
