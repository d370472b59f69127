/**
 * What each record of the journal needs before anything follows from it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { step } from "../../src/core/client-stream.ts";
import { needOf } from "../../src/core/record-needs.ts";
import {
  abort,
  ack,
  after,
  answer,
  approved,
  attached,
  client,
  event,
  exec,
  received,
  recorded,
  say,
  type State,
  stateAfter,
  tick,
  welcome,
} from "./client.ts";
import { only, run } from "./run.ts";
import type { Input } from "../../src/core/client-stream.ts";

const needs = (state: State, ...inputs: readonly Input[]): readonly string[] =>
  only(run(step, state, inputs)[1], "record").map((one) => {
    const { order } = one;
    return `${"phase" in order ? order.phase : order.kind}: ${one.needs}`;
  });

test("C2: each phase of an exec is synced before the next one, wherever the journal lies", () => {
  for (const isOnServersDisk of [false, true]) {
    const live = attached({ isOnServersDisk });
    assert.deepEqual(needs(live, event(1), exec(1, "x1", true), recorded(1), approved, recorded(1)), [
      "received: sync",
      "approved: sync",
      "started: sync",
    ]);
  }
});

test("C2: that a request was taken back, or came with other arguments, is synced", () => {
  const running = stateAfter(
    attached({ isOnServersDisk: true }),
    event(1),
    exec(1),
    recorded(1),
    recorded(1),
  );
  const takenBack: Input = { kind: "exec", input: { kind: "exec_aborted", execId: "x1" }, nowMs: 0 };
  assert.deepEqual(needs(running, takenBack), ["exec_aborted: sync"]);
  const order = { kind: "exec_conflict", execId: "x1", argsHash: "other" } as const;
  assert.equal(needOf(order, true), "sync");
});

test("D3: a wish to stop is synced, wherever the journal lies", () => {
  for (const isOnServersDisk of [false, true])
    assert.deepEqual(needs(attached({ isOnServersDisk }), abort), ["abort: sync"]);
});

test("A5: a chunk, a result, a snapshot and the end need the order of the two logs", () => {
  const live = attached({ isOnServersDisk: true });
  assert.deepEqual(needs(live, say), ["said: order"]);
  const running = stateAfter(live, event(1), exec(1), recorded(1), recorded(1));
  assert.deepEqual(needs(running, answer()), ["said: order"]);
  assert.deepEqual(needs(live, event(1), { kind: "snapshot", through: 1 }), ["snapshot: order"]);
  assert.deepEqual(needs(live, event(1, "completed")), ["ended: order"]);
  assert.equal(needOf({ kind: "degraded" }, true), "order");
});

test("A6: an ack needs nothing, and nothing follows from its record", () => {
  const said = stateAfter(attached(), say, recorded(1));
  assert.deepEqual(needs(said, ack(0)), ["acked: nothing"]);
  assert.deepEqual(after(said, ack(0), recorded(1)), []);
});

test("D4, D7: when a stream was last seen needs nothing beside its server, and must not be lost elsewhere", () => {
  assert.deepEqual(needs(client({ isOnServersDisk: true }), tick(), welcome()), ["attached: nothing"]);
  assert.deepEqual(needs(client(), tick(), welcome()), ["attached: order"]);
  const welcomed = stateAfter(client({ isOnServersDisk: true, records: [received()] }), tick());
  assert.ok(!after(welcomed, welcome(), recorded(1)).includes("run"));
});
