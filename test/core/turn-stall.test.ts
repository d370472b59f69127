/**
 * The two clocks by which a server notices that a turn stands still.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stallLine } from "../../src/core/standstill.ts";
import * as turnStall from "../../src/core/turn-stall.ts";
import type { ServerRequest } from "../../src/protocol/request-codec.ts";
import { last, run } from "./run.ts";

const options: turnStall.Options = { progressMs: 1_000, unansweredMs: 500 };

const running: turnStall.Turn = { isRunning: true, isClosed: false, writerSinceEvent: 0, writer: undefined };
/** A turn whose client is attached, has everything, and names these execs. */
const attachedWith = (
  execIds: readonly string[] | undefined,
  more: Partial<turnStall.Writer> = {},
): turnStall.Turn => ({
  ...running,
  writer: { sinceMs: 0, cursor: 9, execIds: execIds && new Set(execIds), namesAll: true, ...more },
});
const moved = (nowMs: number): turnStall.Input => ({ kind: "moved", nowMs });
const tick = (nowMs: number, turn: turnStall.Turn = running): turnStall.Input => ({
  kind: "tick",
  turn,
  nowMs,
});
/** So that the machine does not take the time before for sleep. */
const ticks = (fromMs: number, toMs: number, turn?: turnStall.Turn): readonly turnStall.Input[] =>
  Array.from({ length: Math.ceil((toMs - fromMs) / 400) }, (_, at) => tick(fromMs + at * 400, turn));

const exec: ServerRequest = { kind: "exec", id: "1.0" };
const kv: ServerRequest = { kind: "kv", id: "3" };
const query: ServerRequest = { kind: "query", id: "4" };
const asked = (nowMs: number, ...requests: readonly ServerRequest[]): turnStall.Input => ({
  kind: "logged",
  asked: requests.map(({ kind, id }, at) => ({ kind, id, eventId: at + 1 })),
  answered: [],
  nowMs,
});
const answered = (nowMs: number, ...requests: readonly ServerRequest[]): turnStall.Input => ({
  kind: "logged",
  asked: [],
  answered: requests,
  nowMs,
});

const [begun] = run(turnStall.step, turnStall.init(options), [tick(0)]);
const said = (inputs: readonly turnStall.Input[]): readonly string[] =>
  last(turnStall.step, begun, inputs)[1].map(stallLine);

test("F4: a running turn in which nothing becomes durable is named, with no client attached too", () => {
  assert.deepEqual(said([...ticks(0, 1_000), tick(1_000)]), []);
  assert.deepEqual(said([...ticks(0, 1_000), tick(1_001)]), [
    "stall detected (no_progress): the turn stands still for 1.0 s",
  ]);
  assert.deepEqual(said([...ticks(0, 1_000), tick(1_001), tick(1_400)]), [], "once");
  assert.deepEqual(said([...ticks(0, 1_000), tick(1_001), moved(7_000)]), [
    "activity resumed after a stall (no_progress): the turn stood still for 7.0 s",
  ]);
});

test("F4: a turn that has ended, or has not begun, does not stand still", () => {
  const over = { ...running, isRunning: false };
  assert.deepEqual(said([...ticks(0, 9_000, over), tick(9_000, over)]), []);
  assert.deepEqual(said([...ticks(0, 1_000), tick(1_001), tick(1_100, over)]), [
    "the stream ended during a stall (no_progress): the turn stood still",
  ]);
});

test("F4: a turn that waits for an exec which its client names as running is not stalled, however long it takes", () => {
  const busy = attachedWith(["1.0"]);
  assert.deepEqual(run(turnStall.step, begun, [asked(0, exec), ...ticks(0, 90_000, busy)])[1], []);
});

test("F4: a turn whose exec the client has received and does not name is stalled, and the exec is named with its age", () => {
  const idle = attachedWith([]);
  assert.deepEqual(said([asked(0, exec), tick(300, idle), tick(500, idle)]), []);
  assert.deepEqual(said([asked(0, exec), tick(300, idle), tick(501, idle)]), [
    "stall detected (unanswered): exec 1.0 stands still for 0.5 s; unanswered: exec 1.0 for 0.5 s",
  ]);
});

test("F4: the stall of an exec is over when it is answered, or when its client names it after all", () => {
  const stalled = [asked(0, exec), tick(300, attachedWith([])), tick(501, attachedWith([]))];
  const over = "activity resumed after a stall (unanswered): exec 1.0 stood still for 0.9 s";
  assert.deepEqual(said([...stalled, answered(900, exec)]), [over]);
  assert.deepEqual(said([...stalled, tick(900, attachedWith(["1.0"]))]), [over]);
  assert.deepEqual(said([...stalled, tick(900)]), [], "a client that has left does not name it");
});

test("F4: one exec that runs does not hide another one that is lost", () => {
  const second: ServerRequest = { kind: "exec", id: "1.1" };
  const half = attachedWith(["1.0"]);
  assert.deepEqual(said([asked(0, exec, second), tick(300, half), tick(501, half)]), [
    "stall detected (unanswered): exec 1.1 stands still for 0.5 s; unanswered: exec 1.0 for 0.5 s, exec 1.1 for 0.5 s",
  ]);
});

test("F4: an exec that the client cannot know yet is not lost: no heartbeat came, it was not sent, or there are too many to name", () => {
  for (const writer of [
    attachedWith(undefined),
    attachedWith([], { cursor: 0 }),
    attachedWith([], { namesAll: false }),
  ]) {
    assert.deepEqual(run(turnStall.step, begun, [asked(0, exec), ...ticks(0, 9_000, writer)])[1], []);
  }
});

test("F4: a client that has just attached gets its time", () => {
  const back = attachedWith([], { sinceMs: 8_000 });
  const away = [asked(0, exec), ...ticks(0, 8_000)];
  assert.deepEqual(said([...away, tick(8_100, back), tick(8_500, back)]), []);
  assert.equal(said([...away, tick(8_100, back), tick(8_501, back)]).length, 1);
});

test("F4: a turn that waits for a client which is not attached is not stalled", () => {
  assert.deepEqual(run(turnStall.step, begun, [asked(0, exec, kv), ...ticks(0, 90_000)])[1], []);
});

test("F4: a blob that is asked for and not answered is a stall; a question waits for a person and is none", () => {
  const there = attachedWith([]);
  assert.deepEqual(run(turnStall.step, begun, [asked(0, query), ...ticks(0, 90_000, there)])[1], []);
  assert.deepEqual(said([asked(0, query, kv), tick(300, there), tick(501, there)]), [
    "stall detected (unanswered): kv 3 stands still for 0.5 s; unanswered: query 4 for 0.5 s, kv 3 for 0.5 s",
  ]);
});

test("F4: when everything is answered, it is the turn's own progress that counts", () => {
  const inputs = [
    asked(0, exec),
    ...ticks(0, 4_000, attachedWith(["1.0"])),
    answered(4_000, exec),
    moved(4_000),
  ];
  assert.deepEqual(
    said([...inputs, ...ticks(4_000, 5_000, attachedWith([])), tick(5_001, attachedWith([]))]),
    ["stall detected (no_progress): the turn stands still for 1.0 s"],
  );
});

test("D2: execs of a writer before count as answered, and so does everything when the client has closed", () => {
  const taken = { ...attachedWith([]), writerSinceEvent: 1 };
  const stalled = [asked(0, exec, kv), tick(300, attachedWith([])), tick(501, attachedWith([]))];
  assert.deepEqual(
    said([...stalled, tick(600, taken)]).at(0),
    "activity resumed after a stall (unanswered): exec 1.0 stood still for 0.6 s",
  );
  assert.deepEqual(said([...stalled, tick(600, { ...attachedWith([]), isClosed: true })]), [
    "activity resumed after a stall (unanswered): exec 1.0 stood still for 0.6 s",
  ]);
});

test("F4: after a restart the logs may be read in any order", () => {
  const there = attachedWith([]);
  const chunksFirst = [answered(0, exec), asked(0, exec, kv), tick(300, there), tick(501, there)];
  assert.deepEqual(said(chunksFirst), [
    "stall detected (unanswered): kv 3 stands still for 0.5 s; unanswered: kv 3 for 0.5 s",
  ]);
});

test("F2: a client that invents answers does not fill the account", () => {
  const invented = Array.from(
    { length: turnStall.EARLY_MAX + 9 },
    (_, at) => ({ kind: "kv", id: `${at}` }) as const,
  );
  const [state] = run(turnStall.step, begun, [answered(0, ...invented)]);
  assert.equal(state.early.size, turnStall.EARLY_MAX);
});

test("F4: a host that slept does not judge by the time it missed", () => {
  assert.deepEqual(said([asked(0, kv), tick(90_000, attachedWith([]))]), []);
  assert.deepEqual(said([tick(90_000)]), []);
  assert.deepEqual(said([tick(90_000), tick(90_400), tick(90_800), tick(91_001)]).length, 1);
});

test("F4: a host that lets go of a stream reports what stood still as ended", () => {
  const [state] = run(turnStall.step, begun, [...ticks(0, 1_000), tick(1_001)]);
  assert.deepEqual(turnStall.letGo(state).map(stallLine), [
    "the stream ended during a stall (no_progress): the turn stood still",
  ]);
});
