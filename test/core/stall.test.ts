/**
 * The three clocks that notice a stream standing still.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as stall from "../../src/core/stall.ts";
import { counted, noStalls, stallLine } from "../../src/core/standstill.ts";
import { last, run } from "./run.ts";

const options: stall.Options = { heartbeatsMissedMax: 3, progressMs: 1_000, unansweredMs: 500 };
const attached = (nowMs: number): stall.Input => ({ kind: "attached", heartbeatIntervalMs: 100, nowMs });
const heard = (nowMs: number): stall.Input => ({ kind: "heard", nowMs });
const progress = (nowMs: number): stall.Input => ({ kind: "progress", nowMs });
const tick = (nowMs: number): stall.Input => ({ kind: "tick", nowMs });
const owed = (isOwed: boolean, nowMs: number): stall.Input => ({ kind: "owed", owed: isOwed, nowMs });
const exec = (id: string) => ({ kind: "exec", id }) as const;
const asked = (id: string, nowMs: number): stall.Input => ({ kind: "asked", request: exec(id), nowMs });
const takenUp = (id: string): stall.Input => ({ kind: "taken_up", request: exec(id) });
const detached: stall.Input = { kind: "detached" };

const [live] = run(stall.step, stall.init(options), [attached(0)]);

function said(inputs: readonly stall.Input[]): readonly string[] {
  return last(stall.step, live, inputs)[1].map((effect) => {
    if (effect.kind === "reconnect") return `reconnect ${effect.clock}: ${effect.stuck}`;
    return effect.kind === "report" ? stallLine(effect.news) : effect.kind;
  });
}

const SILENT = "stall detected (silence): the connection stands still for 0.3 s";
const NO_PROGRESS = "stall detected (no_progress): the answer stands still for 1.0 s";

test("F4: silence is reported and probed after three missed heartbeats, and ends in a reconnect after six", () => {
  assert.deepEqual(said([tick(300)]), []);
  assert.deepEqual(said([tick(301)]), [SILENT, "probe"]);
  assert.deepEqual(said([tick(301), tick(600)]), []);
  assert.deepEqual(said([tick(301), tick(601)]), ["reconnect silence: the connection"]);
});

test("F4: anything heard ends the silence, and the report says how long it was", () => {
  assert.deepEqual(said([tick(301), heard(1_310)]), [
    "activity resumed after a stall (silence): the connection stood still for 1.3 s",
  ]);
  assert.deepEqual(said([heard(310), tick(601)]), []);
});

test("B7: heartbeats are never progress: an answer that is owed and does not come is a stall", () => {
  assert.deepEqual(said([owed(true, 0), heard(999), tick(1_000)]), []);
  assert.deepEqual(said([owed(true, 0), heard(1_000), tick(1_001)]), [NO_PROGRESS, "probe"]);
  assert.deepEqual(said([owed(true, 0), heard(1_000), tick(1_001), heard(2_000), tick(2_001)]), [
    "reconnect no_progress: the answer",
  ]);
});

test("F4: an event or an ack is progress and starts the clock anew", () => {
  assert.deepEqual(said([owed(true, 0), progress(900), heard(1_800), tick(1_900)]), []);
  const reported = [owed(true, 0), heard(1_000), tick(1_001)];
  assert.deepEqual(said([...reported, heard(1_050)]), []);
  assert.deepEqual(said([...reported, progress(1_100)]), [
    "activity resumed after a stall (no_progress): the answer stood still for 1.1 s",
  ]);
});

test("F4: while nothing is owed no progress is no stall, and the clock starts when something becomes owed", () => {
  assert.deepEqual(said([heard(9_000), tick(9_001)]), []);
  assert.deepEqual(said([owed(true, 8_500), heard(9_000), tick(9_001)]), []);
  assert.deepEqual(said([owed(true, 8_000), owed(true, 8_900), heard(9_000), tick(9_001)]), [
    NO_PROGRESS,
    "probe",
  ]);
  assert.deepEqual(said([owed(true, 0), owed(false, 10), heard(9_000), tick(9_001)]), []);
});

test("F4: a stall is over when nothing is owed any more", () => {
  assert.deepEqual(said([owed(true, 0), heard(1_000), tick(1_001), owed(false, 1_500)]), [
    "activity resumed after a stall (no_progress): the answer stood still for 1.5 s",
  ]);
});

test("F4: a request that nobody takes up is named with its age, and in the end the connection is given up", () => {
  const waiting = [asked("1.0", 100), asked("1.1", 200), asked("1.0", 590), heard(600)];
  assert.deepEqual(said([...waiting, tick(600)]), []);
  assert.deepEqual(said([...waiting, tick(601)]), [
    "stall detected (unanswered): exec 1.0 stands still for 0.5 s; unanswered: exec 1.0 for 0.5 s, exec 1.1 for 0.4 s",
    "probe",
  ]);
  assert.deepEqual(said([...waiting, tick(601), heard(1_100), tick(1_101)]), [
    "reconnect unanswered: exec 1.0",
  ]);
});

test("F4: blobs and queries that are asked for run on the same clock as execs, each under its own name", () => {
  const ask = (kind: "kv" | "query"): stall.Input => ({
    kind: "asked",
    request: { kind, id: "1" },
    nowMs: 0,
  });
  const inputs = [asked("1", 0), ask("kv"), ask("query"), takenUp("1"), heard(500), tick(501)];
  assert.deepEqual(said(inputs), [
    "stall detected (unanswered): kv 1 stands still for 0.5 s; unanswered: kv 1 for 0.5 s, query 1 for 0.5 s",
    "probe",
  ]);
});

test("F4: a line about a stall names the oldest eight requests, however many there are", () => {
  const many = Array.from({ length: 50 }, (_, at) => asked(`x${at}`, 0));
  const line = said([...many, heard(500), tick(501)])[0] ?? "";
  assert.ok(line.endsWith("exec x7 for 0.5 s"), line);
});

test("F4: a request that somebody works on is not stuck, however long it takes", () => {
  assert.deepEqual(said([asked("1.0", 0), takenUp("1.0"), heard(99_000), tick(99_001)]), []);
});

test("F4: a reported request that is taken up ends the stall; progress elsewhere does not", () => {
  const reported = [asked("1.0", 0), heard(500), tick(501)];
  assert.deepEqual(said([...reported, progress(510)]), []);
  assert.deepEqual(said([...reported, owed(true, 510)]), []);
  assert.deepEqual(said([...reported, takenUp("1.0"), owed(false, 900)]), [
    "activity resumed after a stall (unanswered): exec 1.0 stood still for 0.9 s",
  ]);
});

test("F4: a younger request does not inherit the stall of an older one, and is named when its own time is over", () => {
  const taken = [asked("1.0", 0), asked("1.1", 300), heard(500), tick(501), takenUp("1.0"), owed(false, 502)];
  assert.deepEqual(said([...taken, tick(502)]), []);
  assert.deepEqual(said([...taken, heard(800), tick(801)]), [
    "stall detected (unanswered): exec 1.1 stands still for 0.5 s; unanswered: exec 1.1 for 0.5 s",
    "probe",
  ]);
});

test("F4: two clocks that run out are two stalls, and each ends by itself", () => {
  const both = [owed(true, 0), asked("1.0", 0), heard(1_000), tick(1_001)];
  assert.equal(said(both).length, 3);
  assert.deepEqual(said([...both, progress(1_100)]).length, 1);
  assert.deepEqual(said([...both, progress(1_100), takenUp("1.0"), owed(true, 1_200)]).length, 1);
});

test("F4: nothing runs out while detached, and an attach starts every clock anew", () => {
  assert.deepEqual(said([asked("1.0", 0), detached, tick(99_000)]), []);
  assert.deepEqual(said([asked("1.0", 0), owed(true, 0), detached, attached(99_000), tick(99_001)]), []);
});

test("F4: nothing runs out before the first attach", () => {
  assert.deepEqual(
    run(stall.step, stall.init(options), [owed(true, 0), asked("1.0", 0), tick(99_000)])[1],
    [],
  );
});

test("F4: a new connection ends the silence of the one before", () => {
  assert.deepEqual(said([tick(301), detached, attached(400)]), [
    "activity resumed after a stall (silence): the connection stood still for 0.4 s",
  ]);
});

test("F4: a reconnect is no activity: an answer that does not come is one stall, over any number of connections", () => {
  const reconnected = [owed(true, 0), heard(1_000), tick(1_001), heard(2_000), tick(2_001), attached(2_100)];
  const [state, effects] = run(stall.step, live, reconnected);
  assert.equal(effects.filter(({ kind }) => kind === "report").length, 1);
  assert.equal(stall.stuckNow(state), undefined, "the status is that of the new connection");
  assert.deepEqual(said([...reconnected, heard(3_100), tick(3_101)]), ["probe"]);
  assert.equal(stall.stuckNow(run(stall.step, state, [heard(3_100), tick(3_101)])[0]), "the answer");
  assert.deepEqual(said([...reconnected, progress(60_000)]), [
    "activity resumed after a stall (no_progress): the answer stood still for 60.0 s",
  ]);
});

test("F4: a machine that slept reconnects at once instead of probing a dead connection", () => {
  assert.deepEqual(said([tick(3_600_000)]), [
    "stall detected (silence): the connection stands still for 3600.0 s",
    "reconnect silence: the connection",
  ]);
});

test("F4: a clock that has asked for a reconnect does not ask again", () => {
  assert.deepEqual(said([tick(601), tick(700)]), []);
});

test("F4: stalls are counted by their clock: how many there were, how many are over, how many there are now", () => {
  const news = run(stall.step, live, [
    tick(301),
    tick(302),
    heard(310),
    owed(true, 310),
    heard(1_310),
    tick(1_311),
  ])[1].flatMap((effect) => (effect.kind === "report" ? [effect.news] : []));
  const counts = news.reduce(counted, noStalls());
  assert.deepEqual(counts.silence, { stalled: 1, resumed: 1, now: 0 });
  assert.deepEqual(counts.no_progress, { stalled: 1, resumed: 0, now: 1 });
  const over = counted(counts, { kind: "ended", clock: "no_progress", stuck: "the answer" });
  assert.deepEqual(over.no_progress, { stalled: 1, resumed: 0, now: 0 });
});
