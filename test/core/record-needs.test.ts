/**
 * What each record of the journal needs before anything follows from it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAbortSafe, safeBelow } from "../../src/core/client-state.ts";
import { step } from "../../src/core/client-stream.ts";
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
  heartbeat,
  lost,
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

test("A5, B3, C2, D3, D7: everything that something follows from is synced", () => {
  const live = attached();
  assert.deepEqual(needs(live, event(1), exec(1, "x1", true), recorded(1), approved, recorded(1)), [
    "received: sync",
    "approved: sync",
    "started: sync",
  ]);
  assert.deepEqual(needs(live, say), ["said: sync"]);
  assert.deepEqual(needs(live, abort), ["abort: sync"]);
  assert.deepEqual(needs(live, event(1), { kind: "snapshot", through: 1 }), ["snapshot: sync"]);
  assert.deepEqual(needs(live, event(1, "completed")), ["ended: sync"]);
  assert.deepEqual(needs(client(), tick(), welcome()), ["attached: sync"]);
  const running = stateAfter(live, event(1), exec(1), recorded(1), recorded(1));
  assert.deepEqual(needs(running, answer()), ["said: sync"]);
  const takenBack: Input = { kind: "exec", input: { kind: "exec_aborted", execId: "x1" }, nowMs: 0 };
  assert.deepEqual(needs(running, takenBack), ["exec_aborted: sync"]);
});

test("A6: an ack needs nothing, and nothing follows from its record", () => {
  const said = stateAfter(attached(), say, recorded(1));
  assert.deepEqual(needs(said, ack(0)), ["acked: nothing"]);
  assert.deepEqual(after(said, ack(0), recorded(1)), []);
});

test("D1: a client without a journal sends at once, and is safe when the server has what it said", () => {
  const begun = client({ keepsJournal: false, takesOver: true });
  const [connect] = only(run(step, begun, [tick()])[1], "connect");
  assert.equal(connect?.attach.writerEpoch, 0);
  const live = stateAfter(begun, tick(), welcome({ nextSeqno: 3, writerEpoch: 2 }));
  assert.deepEqual(after(live, say), ["send 3"]);
  assert.deepEqual([safeBelow(stateAfter(live, say)), safeBelow(stateAfter(live, say, ack(3)))], [3, 4]);
  const stopping = stateAfter(live, abort);
  assert.deepEqual(
    [isAbortSafe(stopping), isAbortSafe(stateAfter(stopping, heartbeat(3, 0, true)))],
    [false, true],
  );
  const [again] = only(run(step, live, [lost(), tick(10_000)])[1], "connect");
  assert.equal(again?.attach.writerEpoch, 2);
});
