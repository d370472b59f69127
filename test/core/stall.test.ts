/**
 * The three clocks that notice a stream standing still.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as stall from "../../src/core/stall.ts";
import { last, run } from "./run.ts";

const options: stall.Options = { heartbeatsMissedMax: 3, progressMs: 1_000, unansweredMs: 500 };
const attached = (nowMs: number): stall.Input => ({ kind: "attached", heartbeatIntervalMs: 100, nowMs });
const heard = (nowMs: number): stall.Input => ({ kind: "heard", nowMs });
const progress = (nowMs: number): stall.Input => ({ kind: "progress", nowMs });
const tick = (nowMs: number): stall.Input => ({ kind: "tick", nowMs });
const owed = (isOwed: boolean, nowMs: number): stall.Input => ({ kind: "owed", owed: isOwed, nowMs });
const asked = (id: string, nowMs: number): stall.Input => ({ kind: "asked", id, nowMs });
const takenUp = (id: string): stall.Input => ({ kind: "taken_up", id });
const detached: stall.Input = { kind: "detached" };

const [live] = run(stall.step, stall.init(options), [attached(0)]);

function said(inputs: readonly stall.Input[]): readonly string[] {
  return last(stall.step, live, inputs)[1].map((effect) =>
    "stuck" in effect ? `${effect.kind} ${effect.clock}: ${effect.stuck}` : effect.kind,
  );
}

test("F4: silence is reported and probed after three missed heartbeats, and ends in a reconnect after six", () => {
  assert.deepEqual(said([tick(300)]), []);
  assert.deepEqual(said([tick(301)]), ["report silence: the connection", "probe"]);
  assert.deepEqual(said([tick(301), tick(600)]), []);
  assert.deepEqual(said([tick(301), tick(601)]), ["reconnect silence: the connection"]);
});

test("F4: anything heard ends the silence", () => {
  assert.deepEqual(said([tick(301), heard(310)]), ["recovered"]);
  assert.deepEqual(said([heard(310), tick(601)]), []);
});

test("B7: heartbeats are never progress: an answer that is owed and does not come is a stall", () => {
  assert.deepEqual(said([owed(true, 0), heard(999), tick(1_000)]), []);
  assert.deepEqual(said([owed(true, 0), heard(1_000), tick(1_001)]), [
    "report no_progress: the answer",
    "probe",
  ]);
  assert.deepEqual(said([owed(true, 0), heard(1_000), tick(1_001), heard(2_000), tick(2_001)]), [
    "reconnect no_progress: the answer",
  ]);
});

test("F4: an event or an ack is progress and starts the clock anew", () => {
  assert.deepEqual(said([owed(true, 0), progress(900), heard(1_800), tick(1_900)]), []);
  const reported = [owed(true, 0), heard(1_000), tick(1_001)];
  assert.deepEqual(said([...reported, heard(1_050)]), []);
  assert.deepEqual(said([...reported, progress(1_100)]), ["recovered"]);
});

test("F4: while nothing is owed no progress is no stall, and the clock starts when something becomes owed", () => {
  assert.deepEqual(said([heard(9_000), tick(9_001)]), []);
  assert.deepEqual(said([owed(true, 8_500), heard(9_000), tick(9_001)]), []);
  assert.deepEqual(said([owed(true, 8_000), owed(true, 8_900), heard(9_000), tick(9_001)]), [
    "report no_progress: the answer",
    "probe",
  ]);
  assert.deepEqual(said([owed(true, 0), owed(false, 10), heard(9_000), tick(9_001)]), []);
});

test("F4: a request that nobody takes up is named, and in the end the connection is given up", () => {
  const waiting = [asked("exec-1", 100), asked("exec-2", 200), asked("exec-1", 590), heard(600)];
  assert.deepEqual(said([...waiting, tick(600)]), []);
  assert.deepEqual(said([...waiting, tick(601)]), ["report unanswered: exec-1", "probe"]);
  assert.deepEqual(said([...waiting, tick(601), heard(1_100), tick(1_101)]), [
    "reconnect unanswered: exec-1",
  ]);
});

test("F4: a request that somebody works on is not stuck, however long it takes", () => {
  assert.deepEqual(said([asked("exec-1", 0), takenUp("exec-1"), heard(99_000), tick(99_001)]), []);
});

test("F4: a reported request that is taken up ends the stall; progress elsewhere does not", () => {
  const reported = [asked("exec-1", 0), heard(500), tick(501)];
  assert.deepEqual(said([...reported, progress(510)]), []);
  assert.deepEqual(said([...reported, takenUp("exec-1"), tick(502)]), ["recovered"]);
});

test("F4: a younger request does not inherit the stall of an older one, and is named when its own time is over", () => {
  const taken = [asked("exec-1", 0), asked("exec-2", 300), heard(500), tick(501), takenUp("exec-1")];
  assert.deepEqual(said([...taken, tick(502)]), ["recovered"]);
  assert.deepEqual(said([...taken, tick(502), heard(800), tick(801)]), [
    "report unanswered: exec-2",
    "probe",
  ]);
});

test("F4: nothing runs out while detached, and an attach starts every clock anew", () => {
  assert.deepEqual(said([asked("exec-1", 0), detached, tick(99_000)]), []);
  assert.deepEqual(said([asked("exec-1", 0), owed(true, 0), detached, attached(99_000), tick(99_001)]), []);
});

test("F4: nothing runs out before the first attach", () => {
  assert.deepEqual(
    run(stall.step, stall.init(options), [owed(true, 0), asked("exec-1", 0), tick(99_000)])[1],
    [],
  );
});

test("F4: a new connection ends the stall of the one before", () => {
  assert.deepEqual(said([tick(301), detached, attached(400)]), ["recovered"]);
});

test("F4: a machine that slept reconnects at once instead of probing a dead connection", () => {
  assert.deepEqual(said([tick(3_600_000)]), ["reconnect silence: the connection"]);
});

test("F4: a clock that has asked for a reconnect does not ask again", () => {
  assert.deepEqual(said([tick(601), tick(700)]), []);
});

test("each stall is counted once", () => {
  const [state] = run(stall.step, live, [tick(301), tick(302), heard(310), tick(620)]);
  assert.equal(state.stalls, 2);
});
