/**
 * A client's stream and its tools: run once, answer once, stop when told to.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as tools from "../../src/core/tool-journal.ts";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import { isAbortSafe, maySpeak } from "../../src/core/client-state.ts";
import { type Input, step } from "../../src/core/client-stream.ts";
import type { JournalRecord } from "../../src/core/journal.ts";
import {
  abort,
  ack,
  after,
  answer,
  approved,
  attached,
  client,
  close,
  denied,
  event,
  exec,
  heartbeat,
  lost,
  received,
  recorded,
  refused,
  say,
  stateAfter,
  through,
  tick,
  welcome,
} from "./client.ts";
import { only, run } from "./run.ts";

const welcomedBefore: JournalRecord = { kind: "attached", serverTimeMs: 500 };
const startedOnDisk: JournalRecord = { kind: "exec_started", execId: "x1" };
const running = stateAfter(attached(), event(1), exec(1), recorded(1), recorded(1));

test("C2: received, started, run: each waits for the record before it", () => {
  assert.deepEqual(after(attached(), event(1), exec(1)), ["record received"]);
  assert.deepEqual(after(attached(), event(1), exec(1), recorded(1)), ["record started"]);
  assert.deepEqual(after(attached(), event(1), exec(1), recorded(1), recorded(1)), ["run"]);
});

test("C2: the result and done are one record, and the result leaves when it is on disk", () => {
  const [, effects] = run(step, running, [answer()]);
  assert.deepEqual(only(effects, "record"), [
    { kind: "record", order: { kind: "said", seqno: 0, isClose: false, execId: "x1" }, needs: "sync" },
  ]);
  assert.deepEqual(after(running, answer(), recorded(1)), ["send 0"]);
});

test("C2: crash after done: the same result goes out under the same seqno, and nothing runs", () => {
  const done: JournalRecord = {
    kind: "said",
    seqno: 0,
    isClose: false,
    body: new Uint8Array(5),
    execId: "x1",
  };
  const restarted = client({ records: [welcomedBefore, received(), startedOnDisk, done] });
  assert.deepEqual(after(restarted, tick(), welcome()), ["record attached", "send 0"]);
});

test("C2: crash after started: the outcome is reported as unknown, once", () => {
  const restarted = client({ records: [welcomedBefore, received(), startedOnDisk] });
  assert.deepEqual(after(restarted, tick(), welcome()), [
    "record attached",
    "stop_leftover",
    "report unknown",
  ]);
  const again = [tick(), welcome(), lost(), tick(1_000), welcome({}, 2)];
  assert.deepEqual(after(restarted, ...again), ["record attached"]);
});

test("C3: a request that a reconnect delivers again joins the run", () => {
  assert.deepEqual(after(running, lost(), tick(1_000), welcome({}, 2), exec(1)), []);
});

test("C5: other arguments under the same exec id are recorded, not run", () => {
  const other = { kind: "requested", execId: "x1", eventId: 2, argsHash: "other" } as const;
  const input = { ...other, repeatable: false, needsApproval: false };
  assert.deepEqual(after(running, { kind: "exec", input, nowMs: 0 }), ["record exec_conflict"]);
});

test("C6: an ack of the result settles the exec, also by a welcome after the ack was lost", () => {
  const done = stateAfter(running, answer(), recorded(1));
  const phase = (state: typeof done): unknown => tools.find(state.tools, "x1")?.phase;
  assert.equal(phase(done), "done");
  assert.equal(phase(stateAfter(done, ack(0))), "acked");
  assert.equal(phase(stateAfter(done, lost(), tick(1_000), welcome({ nextSeqno: 1 }, 2))), "acked");
});

test("C7: a tool that needs approval is asked for; the answer decides", () => {
  const asking = stateAfter(attached(), event(1), exec(1, "x1", true), recorded(1));
  assert.deepEqual(after(attached(), event(1), exec(1, "x1", true), recorded(1)), ["ask"]);
  assert.deepEqual(after(asking, approved), ["record approved"]);
  assert.deepEqual(through(asking, approved, approved, recorded(1), recorded(1)), [
    "record approved",
    "record started",
    "run",
  ]);
  assert.deepEqual(after(asking, denied), ["report denied"]);
});

test("C1: nobody answers twice, and nobody answers what was not run or reported", () => {
  assert.throws(() => stateAfter(running, answer(), answer()), AssertionFailed);
  assert.throws(() => stateAfter(attached(), answer("unheard of")), AssertionFailed);
});

test("C1: a close waits until every exec has its result", () => {
  assert.equal(maySpeak(running, 0, true), false);
  assert.equal(maySpeak(running, 5, false), true);
  assert.equal(maySpeak(stateAfter(running, answer()), 0, true), true);
});

test("a client that has closed takes up no exec: it could not answer", () => {
  assert.deepEqual(after(attached(), close, event(1), exec(1)), []);
});

test("D2: a reader carries nothing out", () => {
  assert.deepEqual(after(attached({ role: "reader" }), event(1), exec(1)), []);
});

test("D2: execs from before a takeover are not carried out and are no stall", () => {
  const taken = stateAfter(
    client({ takesOver: true }),
    tick(),
    welcome({ writerSinceEvent: 5, eventHead: 5 }),
  );
  assert.deepEqual(after(taken, event(1), exec(1)), []);
  const quiet = stateAfter(taken, event(1), exec(1), heartbeat(0, 1, false, 100_000));
  assert.deepEqual(after(quiet, tick(100_001)), ["send_heartbeat"]);
  assert.deepEqual(after(taken, exec(6)), ["record received"]);
});

test("D3: an abort is journaled first and sent when it is on disk", () => {
  assert.deepEqual(after(attached(), abort), ["record abort"]);
  assert.deepEqual(after(attached(), abort, recorded(1)), ["send_abort"]);
});

test("D3: an abort stops what runs and starts nothing more, at once and also while offline", () => {
  assert.deepEqual(after(running, abort), ["record abort", "cancel"]);
  assert.deepEqual(after(running, lost(), abort), ["record abort", "cancel"]);
  assert.deepEqual(after(attached(), event(1), exec(1), abort, recorded(1)), ["report aborted"]);
});

test("D3: an abort that was on disk before a crash is sent first thing, and starts no tool", () => {
  const restarted = client({ records: [welcomedBefore, received(), { kind: "abort" }] });
  assert.deepEqual(after(restarted, tick(), welcome()), ["record attached", "send_abort", "report aborted"]);
});

test("D3: an abort while a recovered exec is about to start is aborted, not unknown: it has never run", () => {
  const restarted = client({ records: [welcomedBefore, received()] });
  assert.deepEqual(after(restarted, tick(), welcome(), abort, recorded(2)), ["report aborted"]);
});

test("D3: an abort cannot be lost once a writer has it on disk, a reader the server's word, or the stream has ended", () => {
  assert.equal(isAbortSafe(stateAfter(attached(), abort)), false);
  assert.equal(isAbortSafe(stateAfter(attached(), abort, recorded(1))), true);
  const reader = attached({ role: "reader" });
  assert.equal(isAbortSafe(stateAfter(reader, abort, recorded(1))), false);
  assert.equal(isAbortSafe(stateAfter(reader, abort, recorded(1), heartbeat(0, 0, true))), true);
  assert.equal(isAbortSafe(stateAfter(attached(), event(1, "completed"))), true);
  assert.equal(isAbortSafe(stateAfter(attached(), refused("fenced"), abort)), false);
});

test("D3: a client that is turned away for good first lets its abort reach the server, once", () => {
  const offline = stateAfter(attached(), lost(), tick(1_000), abort, recorded(1));
  const again = stateAfter(offline, refused("fenced", 2, 1_000));
  assert.equal(again.phase, "waiting");
  const [, effects] = run(step, again, [tick(1_000)]);
  assert.deepEqual(
    only(effects, "connect").map(({ attach }) => attach.abort),
    [true],
  );
  assert.equal(stateAfter(again, tick(1_000), refused("fenced", 3, 1_000)).outcome, "fenced");
});

test("D3: an abort is repeated at each attach and after each heartbeat that does not know it, until one does", () => {
  const aborting = stateAfter(attached(), abort, recorded(1));
  assert.deepEqual(after(aborting, heartbeat(0, 0)), ["send_abort"]);
  assert.deepEqual(after(aborting, lost(), tick(1_000), welcome({}, 2)), ["record attached", "send_abort"]);
  assert.deepEqual(after(aborting, heartbeat(0, 0, true), heartbeat(0, 0, true)), []);
  assert.deepEqual(after(aborting, lost(), tick(1_000), welcome({ aborted: true }, 2)), ["record attached"]);
});

test("D3: an attach carries the abort once it is on disk, until the server has confirmed it", () => {
  const carried = (...inputs: readonly Input[]): unknown =>
    only(run(step, attached(), [...inputs, lost(), tick(1_000)])[1], "connect")[0]?.attach.abort;
  assert.equal(carried(), false);
  assert.equal(carried(abort), false);
  assert.equal(carried(abort, recorded(1)), true);
  assert.equal(carried(abort, recorded(1), heartbeat(0, 0, true)), false);
});

test("D3: somebody else's abort stops our tools too", () => {
  assert.deepEqual(after(running, heartbeat(0, 1, true)), ["cancel"]);
  const pending = stateAfter(attached(), event(1), exec(1));
  assert.deepEqual(after(pending, lost(), tick(1_000), welcome({ aborted: true }, 2), recorded(2)), [
    "report aborted",
  ]);
});

test("B6: the end stops what still runs", () => {
  assert.deepEqual(after(running, event(2, "completed")), [
    "deliver 2",
    "cancel",
    "record ended",
    "disconnect",
    "stopped",
  ]);
});

test("a client's heartbeat names what it is carrying out", () => {
  const names = (state: typeof running): unknown =>
    only(run(step, state, [tick(5_000)])[1], "send_heartbeat")[0]?.runningExecIds;
  assert.deepEqual(names(running), ["x1"]);
  assert.deepEqual(names(stateAfter(running, answer())), []);
});

test("F4: an exec that nobody takes up is a stall that names it, and ends in a reconnect", () => {
  // The disk hangs: `received` never comes back.
  const stuck = stateAfter(attached(), event(1), exec(1));
  const alive = (nowMs: number) => heartbeat(0, 1, false, nowMs);
  assert.deepEqual(after(stuck, alive(30_001), tick(30_001)), ["stalled unanswered", "send_heartbeat"]);
  assert.deepEqual(after(stuck, alive(60_001), tick(60_001)), ["stalled unanswered", "disconnect"]);
  assert.deepEqual(after(stuck, recorded(1), recorded(1), alive(60_001), tick(60_001)), ["send_heartbeat"]);
});

test("F4: while a tool runs the server owes nothing, however long it takes", () => {
  const spoken = stateAfter(
    attached(),
    say,
    recorded(1),
    ack(0),
    event(1),
    exec(1),
    recorded(2),
    recorded(1),
  );
  const later = stateAfter(spoken, heartbeat(1, 1, false, 1e6));
  assert.deepEqual(after(later, tick(1e6 + 1)), ["record attached", "send_heartbeat"]);
});

test("F4: while somebody thinks about a question the server owes nothing, and after that it does again", () => {
  const considering = (isOver: boolean, nowMs: number): Input => ({
    kind: "considering",
    id: "q1",
    isOver,
    nowMs,
  });
  const alive = (nowMs: number): Input => heartbeat(1, 1, false, nowMs);
  const asked = stateAfter(attached(), say, recorded(1), ack(0), event(1), considering(false, 1));
  assert.deepEqual(after(asked, alive(1e6), tick(1e6)), ["record attached", "send_heartbeat"]);
  const answered = stateAfter(asked, considering(true, 1e6));
  assert.deepEqual(after(answered, alive(1e6 + 60_001), tick(1e6 + 60_001)).slice(0, 2), [
    "stalled no_progress",
    "send_heartbeat",
  ]);
  const unasked = stateAfter(attached(), say, recorded(1), ack(0), event(1));
  assert.deepEqual(after(unasked, alive(60_001), tick(60_001)), ["stalled no_progress", "send_heartbeat"]);
});

test("F4: while somebody thinks about an approval the server owes nothing, however long it takes", () => {
  const asking = stateAfter(attached(), say, recorded(1), ack(0), event(1), exec(1, "x1", true), recorded(2));
  const later = stateAfter(asking, heartbeat(1, 1, false, 1e6));
  assert.deepEqual(after(later, tick(1e6 + 1)), ["record attached", "send_heartbeat"]);
});

test("C4: that an exec was taken back is on disk before a snapshot passes the event that said so", () => {
  const takenBack: Input = { kind: "exec", input: { kind: "exec_aborted", execId: "x1" }, nowMs: 0 };
  const asking = stateAfter(attached(), event(1), exec(1, "x1", true), recorded(1));
  assert.deepEqual(after(asking, event(2), takenBack), ["record exec_aborted", "report aborted"]);
  const records: JournalRecord[] = [welcomedBefore, received(), { kind: "exec_aborted", execId: "x1" }];
  const restarted = client({
    records: [...records, { kind: "snapshot", cursor: 2, state: new Uint8Array() }],
  });
  assert.deepEqual(after(restarted, tick(), welcome({ eventHead: 2 })), [
    "record attached",
    "report aborted",
  ]);
});
