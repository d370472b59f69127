/**
 * What the server asks of a client, and for how long it may be unanswered: execs, blobs, queries.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Input, step } from "../../src/core/client-stream.ts";
import type { ServerRequest } from "../../src/protocol/request-codec.ts";
import {
  ack,
  after,
  attached,
  close,
  event,
  exec,
  heartbeat,
  recorded,
  say,
  stateAfter,
  tick,
} from "./client.ts";
import { only, run } from "./run.ts";

const kv = { kind: "kv", id: "3" } as const;
const query = { kind: "query", id: "4" } as const;
const asked = (request: ServerRequest, nowMs = 0): Input => ({ kind: "asked", request, nowMs });
const answeredBy = (request: ServerRequest, nowMs = 0): Input => ({ kind: "answered", request, nowMs });
const alive = (nowMs: number): Input => heartbeat(1, 1, false, nowMs);
const waiting = stateAfter(attached(), say, recorded(1), ack(0), event(1));

test("F4: a blob or a query that the application does not answer is a stall, as an exec is", () => {
  for (const request of [kv, query]) {
    const stuck = stateAfter(waiting, asked(request), alive(30_001));
    assert.deepEqual(after(stuck, tick(30_001)), ["stalled unanswered", "send_heartbeat"]);
    assert.deepEqual(after(stuck, tick(30_001), answeredBy(request, 40_000)), ["resumed unanswered"]);
    assert.deepEqual(after(stuck, answeredBy(request), tick(30_001)), ["send_heartbeat"]);
  }
});

test("F4: a query that waits for a person is no stall, whether the person or the query comes first", () => {
  const person = (isOver: boolean, nowMs = 0): Input => {
    return { kind: "considering", id: "query 4", isOver, nowMs };
  };
  for (const inputs of [
    [asked(query), person(false)],
    [person(false), asked(query)],
  ]) {
    const later = stateAfter(waiting, ...inputs, alive(1e6));
    assert.deepEqual(after(later, tick(1e6)), ["record attached", "send_heartbeat"]);
  }
});

test("F4: an exec of a client without tools is the application's: no stall, and the heartbeat names it until it is answered", () => {
  const names = (state: typeof waiting): unknown =>
    only(run(step, state, [tick(1e6)])[1], "send_heartbeat")[0]?.runningExecIds;
  const parked = stateAfter(waiting, asked({ kind: "exec", id: "1.0" }), alive(1e6));
  assert.deepEqual(after(parked, tick(1e6)), ["record attached", "send_heartbeat"]);
  assert.deepEqual(names(parked), ["1.0"]);
  assert.deepEqual(names(stateAfter(parked, answeredBy({ kind: "exec", id: "1.0" }, 1e6))), []);
});

test("D2: a reader answers nothing, so nothing is unanswered for it; nor for a client that has closed", () => {
  const reader = attached({ role: "reader" });
  assert.deepEqual(after(reader, asked(kv), heartbeat(0, 0, false, 90_000), tick(90_001)), [
    "send_heartbeat",
  ]);
  const closing = stateAfter(attached(), close, recorded(1), ack(0), event(1), asked(kv), alive(30_001));
  assert.deepEqual(after(closing, tick(30_001)), ["send_heartbeat"]);
});

test("F4: a client's heartbeat names an exec that waits for an approval: the server does not take it for lost", () => {
  const asking = stateAfter(attached(), event(1), exec(1, "x1", true), recorded(1));
  const beat = only(run(step, asking, [tick(5_000)])[1], "send_heartbeat")[0];
  assert.deepEqual(beat?.runningExecIds, ["x1"]);
});

test("F4: a stream that ends or is left during a stall says so once", () => {
  const stuck = stateAfter(waiting, asked(kv), alive(30_001), tick(30_001));
  assert.deepEqual(
    after(stuck, { kind: "leave" }).filter((word) => word.includes("unanswered")),
    ["ended unanswered"],
  );
});
