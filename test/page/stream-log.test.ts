/** Both logs of a stream as the stream view has them, frame by frame. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import type { ClientFrame, ServerFrame, WelcomeFrame } from "../../src/protocol/frames.ts";
import {
  AgentServerMessageSchema,
  type InteractionUpdate,
  StepCompletedUpdateSchema,
  StepContinuedUpdateSchema,
  StepStartedUpdateSchema,
} from "../../src/protocol/messages.ts";
import { encodeClient } from "../../src/turn/messages.ts";
import { decodedChunk, ROWS_MAX, type Row, StreamLog } from "../../src/page/stream-log.ts";

/** A log that is told what passes; each frame a millisecond after the one before. */
class Told {
  readonly log = new StreamLog();
  nowMs = 0;
  #connection = 0;

  open(): void {
    this.#connection++;
    this.#put({ kind: "opened" });
  }
  sent(frame: ClientFrame): void {
    this.#put({ kind: "sent", frame });
  }
  received(frame: ServerFrame, connection = this.#connection): void {
    this.#put({ kind: "received", frame }, connection);
  }
  welcomed(eventHead: number, nextSeqno: number): void {
    const frame: WelcomeFrame = {
      kind: "welcome",
      message: "",
      degraded: false,
      nextSeqno,
      eventHead,
      eventFloor: 1,
      writerEpoch: 1,
      writerSinceEvent: 0,
      durability: "fsync",
      retentionLeftMs: 0,
      heartbeatIntervalMs: 0,
      serverTimeMs: 0,
      lastActivityMs: 0,
      aborted: false,
      protocolVersion: 1,
      resumed: false,
      closed: false,
    };
    this.received(frame);
  }
  event(eventId: number, message: InteractionUpdate["message"], end?: "completed"): void {
    const update = { case: "interactionUpdate", value: { message } } as const;
    const body = toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message: update }));
    this.received({ kind: "event", eventId, body, end });
  }
  lost(): void {
    this.#put({ kind: "closed", reason: "connection_lost" });
  }
  #put(news: Parameters<StreamLog["put"]>[0]["news"], connection = this.#connection): void {
    this.log.put({ idempotencyKey: "k", connection, news }, ++this.nowMs);
  }
}

const chunk = (seqno: number): ClientFrame => ({
  kind: "chunk",
  seqno,
  writerEpoch: 1,
  body: new Uint8Array(10),
});
const TEXT = { case: "textDelta", value: { $typeName: "holdfast.v1.TextDeltaUpdate", text: "a" } } as const;

function shown(row: Row): string {
  switch (row.kind) {
    case "chunk":
      return `${row.seqno} ${row.ackMs === undefined ? "…" : "✓"} ${row.times}`;
    case "event":
      return `${row.eventId}-${row.untilId} ${row.name}${row.isReplay ? " replay" : ""}`;
    case "pulse":
      return `pulse of ${row.from}`;
    case "rule":
      return row.text;
  }
}

test("chunks with their acks, events with their names, a cut and what was replayed behind it", () => {
  const told = new Told();
  told.open();
  told.sent(chunk(0));
  told.welcomed(0, 0);
  told.event(1, TEXT);
  told.received({ kind: "ack", seqno: 0 });
  told.sent(chunk(1));
  told.received({ kind: "heartbeat", nextSeqno: 1, eventHead: 1, aborted: false });
  told.lost();
  told.nowMs += 1_498;
  told.open();
  told.received({ kind: "ack", seqno: 9 }, 1);
  told.welcomed(4, 1);
  told.sent(chunk(1));
  for (const eventId of [2, 3, 4]) told.event(eventId, TEXT);
  told.event(5, TEXT, "completed");
  told.received({ kind: "ack", seqno: 1 });
  told.lost();
  assert.deepEqual(told.log.rows.map(shown), [
    "0 ✓ 1",
    "connected, epoch 1, fsync, 0 in the log",
    "1-1 text delta",
    "1 … 1",
    "pulse of server",
    "cut: connection lost",
    "back after 1.5 s, epoch 1, fsync, 4 in the log",
    "1 ✓ 2",
    "2-4 text delta replay",
    "5-5 end: completed",
  ]);
  const { facts } = told.log;
  assert.deepEqual(
    [facts.events, facts.chunks, facts.acked, facts.reconnects, facts.bytesOut, facts.end],
    [5, 2, 2, 1, 30, "completed"],
  );
  assert.deepEqual(
    told.log.spans.map(({ kind, toMs, fromMs }) => [kind, (toMs ?? 0) - fromMs]),
    [["break", 1_501]],
  );
});

test("a chunk is named by what it says, and can be read", () => {
  const told = new Told();
  told.open();
  told.welcomed(0, 0);
  const bodies = [
    encodeClient({ case: "runRequest", value: { model: "m" } }),
    encodeClient({ case: "execClientMessage", value: {} }),
    encodeClient({ case: "kvClientMessage", value: {} }),
    Uint8Array.of(255),
  ];
  for (const [seqno, body] of bodies.entries()) told.sent({ kind: "chunk", seqno, writerEpoch: 1, body });
  const chunks = told.log.rows.filter((row) => row.kind === "chunk");
  assert.deepEqual(
    chunks.map(({ name }) => name),
    ["run", "tool result", "blob", "unknown"],
  );
  assert.match(JSON.stringify(decodedChunk(bodies[0] ?? new Uint8Array())), /"model":"m"/);
});

test("no more rows are kept than its bound, and those that went are counted", () => {
  const told = new Told();
  told.open();
  told.welcomed(0, 0);
  for (let eventId = 1; eventId <= ROWS_MAX + 10; eventId++) told.event(eventId, TEXT);
  assert.ok(told.log.rows.length <= ROWS_MAX);
  assert.equal(told.log.rows.length + told.log.omitted, ROWS_MAX + 11);
  assert.equal(told.log.facts.events, ROWS_MAX + 10);
});

test("the timeline has the waiting for the model, and a break at the provider with how it was continued", () => {
  const told = new Told();
  told.open();
  told.welcomed(0, 0);
  const stepStarted = create(StepStartedUpdateSchema, { step: 0, model: "m" });
  told.event(1, { case: "stepStarted", value: stepStarted });
  told.nowMs += 99;
  told.event(2, TEXT);
  told.event(3, { case: "stepContinued", value: create(StepContinuedUpdateSchema, { continuation: 1 }) });
  told.nowMs += 49;
  told.event(4, TEXT);
  told.event(5, { case: "stepCompleted", value: create(StepCompletedUpdateSchema, {}) });
  told.event(6, TEXT, "completed");
  assert.deepEqual(
    told.log.spans.map(({ kind, name, fromMs, toMs = Number.NaN }) => [kind, name, toMs - fromMs]),
    [
      ["model", "step 0: m", 152],
      ["wait", "waiting for the model", 100],
      ["break", "the answer broke off; it was continued", 0],
      ["wait", "waiting for the model", 50],
    ],
  );
});
