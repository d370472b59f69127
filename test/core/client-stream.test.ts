/**
 * A client's stream: connecting, sending, following, and what a break does to each.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import { liveState, maySpeak } from "../../src/core/client-state.ts";
import { type Input, step } from "../../src/core/client-stream.ts";
import type { JournalRecord } from "../../src/core/journal.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import {
  ack,
  after,
  attached,
  client,
  close,
  event,
  frame,
  heartbeat,
  lost,
  recorded,
  refused,
  say,
  type Start,
  stateAfter,
  through,
  tick,
  welcome,
} from "./client.ts";
import { only, run } from "./run.ts";

const said = (seqno: number, isClose = false): JournalRecord => {
  return { kind: "said", seqno, isClose, body: new Uint8Array(10), execId: undefined };
};
const welcomedBefore: JournalRecord = { kind: "attached", serverTimeMs: 500 };

function connectOf(start: Start, ...inputs: readonly Input[]) {
  const [, effects] = run(step, client(start), [...inputs, tick()]);
  const [connect] = only(effects, "connect");
  assert.ok(connect !== undefined);
  return connect;
}

test("D4: a journal that was never welcomed opens its stream, one that was resumes it", () => {
  assert.equal(connectOf({}).attach.mode, "open");
  assert.equal(connectOf({ records: [welcomedBefore] }).attach.mode, "resume");
});

test("D2: a takeover and a reader only ever resume", () => {
  assert.equal(connectOf({ takesOver: true }).attach.mode, "resume");
  assert.equal(connectOf({ role: "reader" }).attach.mode, "resume");
});

test("B3: a restarted client asks for what follows its last snapshot, else for everything", () => {
  assert.equal(
    connectOf({ records: [{ kind: "snapshot", cursor: 7, state: new Uint8Array() }] }).attach.eventId,
    7,
  );
  assert.equal(connectOf({ records: [welcomedBefore] }).attach.eventId, 0);
});

test("A5, D5: only the very first attempt of a fresh key is fresh and may carry chunk 0", () => {
  const first = connectOf({ fresh: true }, say);
  assert.deepEqual([first.attach.fresh, first.inline], [true, true]);
  const [, effects] = run(step, client({ fresh: true }), [say, tick(), lost(), tick(1_000)]);
  const second = only(effects, "connect")[1];
  assert.deepEqual([second?.attach.fresh, second?.inline, second?.attach.mode], [false, false, "open"]);
});

test("A5: a fresh stream without a first word, and a recovered one with some, send nothing inline", () => {
  assert.equal(connectOf({ fresh: true }).inline, false);
  assert.equal(connectOf({ records: [said(0)] }).inline, false);
});

test("A2: a close is no chunk, so it never travels inline", () => {
  assert.equal(connectOf({ fresh: true }, close).inline, false);
});

test("A5: an inline chunk 0 is not sent twice, and not sent again before it is on disk", () => {
  const fresh = client({ fresh: true });
  assert.deepEqual(
    through(fresh, say, tick(), welcome({ nextSeqno: 1 }), recorded(1)).includes("send 0"),
    false,
  );
  const again = [say, tick(), lost(), tick(1_000), welcome({}, 2)];
  assert.deepEqual(after(fresh, ...again).includes("send 0"), false);
  assert.deepEqual(after(fresh, ...again, recorded(1)), ["send 0"]);
});

test("A5: what is said while live leaves when its record is on disk", () => {
  assert.deepEqual(after(attached(), say), ["record said"]);
  assert.deepEqual(after(attached(), say, say, recorded(1)), ["send 0"]);
});

test("A5: what comes onto disk between two connections waits for the next", () => {
  assert.deepEqual(after(attached(), lost(), say, recorded(1)), []);
  const back = [lost(), say, recorded(1), tick(1_000), welcome({}, 2)];
  assert.deepEqual(after(attached(), ...back), ["record attached", "send 0"]);
});

test("A1: chunks leave with the writer epoch of the welcome", () => {
  const [, effects] = run(step, attached({}, { writerEpoch: 4 }), [say, recorded(1)]);
  assert.equal(only(effects, "send_chunk")[0]?.writerEpoch, 4);
});

test("A6: a welcome acknowledges, releases and records what an ack had said before it was lost", () => {
  const restarted = client({ records: [welcomedBefore, said(0), said(1), said(2)] });
  assert.deepEqual(after(restarted, tick(), welcome({ nextSeqno: 2 })), [
    "record attached",
    "release",
    "send 2",
    "record acked",
  ]);
});

test("A6: heartbeats repeat the ack too", () => {
  assert.deepEqual(after(attached(), say, recorded(1), heartbeat(1, 0)), ["release", "record acked"]);
  assert.deepEqual(after(attached(), say, recorded(1), ack(0), heartbeat(1, 0)), []);
});

test("A6: a reconnect while a record is pending sends what is on disk, and the rest when it is", () => {
  const inputs = [say, say, recorded(1), lost(), tick(1_000), welcome({}, 2)];
  assert.deepEqual(after(attached(), ...inputs), ["record attached", "send 0"]);
  assert.deepEqual(after(attached(), ...inputs, recorded(1)), ["send 1"]);
});

test("A3: an ack for more than was said ends the stream as lost, with everything still on disk", () => {
  const [state, effects] = run(step, attached(), [say, recorded(1), ack(5)]);
  assert.equal(state.failure?.code, "seqno_conflict");
  assert.deepEqual(only(effects, "record").at(-1)?.order, { kind: "ended", outcome: "lost" });
});

test("nothing follows stopped, even when a welcome is what ended it", () => {
  const records = [welcomedBefore, said(0), { kind: "acked", nextSeqno: 1 } as const];
  const execOnDisk: JournalRecord = {
    kind: "exec_received",
    execId: "x1",
    eventId: 1,
    argsHash: "h",
    repeatable: false,
    needsApproval: false,
    request: new Uint8Array(),
  };
  const restarted = client({ records: [...records, execOnDisk, { kind: "exec_started", execId: "x1" }] });
  assert.equal(after(restarted, tick(), welcome({ nextSeqno: 0 })).at(-1), "stopped");
});

test("D2: a takeover speaks only after its first welcome, and goes on from there", () => {
  const taking = client({ takesOver: true });
  assert.equal(maySpeak(taking, 1, false), false);
  const live = stateAfter(taking, tick(), welcome({ nextSeqno: 7 }));
  assert.deepEqual(after(live, say, recorded(2)), ["send 7"]);
});

test("D2: a takeover of a stream whose client side has closed cannot speak either", () => {
  const live = stateAfter(client({ takesOver: true }), tick(), welcome({ nextSeqno: 7, closed: true }));
  assert.equal(maySpeak(live, 1, false), false);
});

test("E8: whoever has 256 chunks open, has closed or has stopped may not speak", () => {
  const full = stateAfter(client(), ...Array.from({ length: LIMITS.unackedChunksMax }, () => say));
  assert.equal(maySpeak(full, 1, false), false);
  assert.throws(() => step(full, say), AssertionFailed);
  assert.throws(() => stateAfter(client(), close, say), AssertionFailed);
  assert.equal(maySpeak(stateAfter(client(), close), 0, false), false);
  assert.equal(maySpeak(stateAfter(client(), { kind: "leave" }), 1, false), false);
  assert.equal(maySpeak(client({ records: [said(0, true)] }), 1, false), false);
});

test("D2: a reader has nothing to say", () => {
  assert.equal(maySpeak(attached({ role: "reader" }), 1, false), false);
});

test("B1: events are delivered in order, repetitions dropped", () => {
  assert.deepEqual(through(attached(), event(1), event(2), event(2), event(1), event(3)), [
    "deliver 1",
    "deliver 2",
    "deliver 3",
  ]);
});

test("B1: a gap means reconnect from the cursor, never skip", () => {
  const [state, effects] = run(step, attached(), [event(1), event(3), tick(1_000)]);
  assert.deepEqual(only(effects, "deliver").length, 1);
  assert.equal(only(effects, "connect")[0]?.attach.eventId, 1);
  assert.equal(state.phase, "connecting");
});

test("B7: a heartbeat that names an event we do not have means that the last frame was lost", () => {
  assert.deepEqual(after(attached(), event(1), heartbeat(0, 2)), ["disconnect"]);
  assert.deepEqual(after(attached(), event(1), heartbeat(0, 1)), []);
});

test("frames and losses of an older connection are ignored, whatever they say", () => {
  const second = stateAfter(attached(), lost(), tick(1_000), welcome({}, 2));
  for (const late of [event(1), ack(0), lost(), refused("fenced"), welcome({ aborted: true })]) {
    assert.deepEqual(after(second, late), []);
    assert.equal(stateAfter(second, late).phase, "attached");
  }
});

test("frames of a connection that we have given up are ignored too", () => {
  const waiting = stateAfter(attached(), lost());
  for (const late of [event(1), ack(0), lost(), refused("fenced"), welcome()]) {
    assert.deepEqual(after(waiting, late), []);
  }
});

test("only a welcome opens a connection, and only once", () => {
  const connecting = stateAfter(client(), tick());
  assert.deepEqual(after(connecting, event(1)), []);
  assert.deepEqual(after(attached(), welcome()), []);
});

test("B6: the end is recorded, and the client stops; a closed socket without it is a break", () => {
  const [state, effects] = run(step, attached(), [event(1, "completed")]);
  assert.deepEqual(only(effects, "record")[0]?.order, { kind: "ended", outcome: "completed" });
  assert.equal(liveState(state), "ended");
  assert.equal(liveState(stateAfter(attached(), lost())), "reconnecting");
});

test("D6: after the end nothing happens any more", () => {
  const ended = stateAfter(attached(), event(1, "completed"));
  for (const late of [say, event(2), lost(), tick(1e9), recorded(0), { kind: "leave" } as const]) {
    assert.deepEqual(step(ended, late), [ended, []]);
  }
});

test("B3: a snapshot covers only what was received, and never goes back", () => {
  const snapshot = (through: number): Input => ({ kind: "snapshot", through });
  const live = stateAfter(attached(), event(1), event(2));
  assert.deepEqual(after(live, snapshot(2)), ["record snapshot"]);
  assert.deepEqual(after(live, snapshot(2), snapshot(2)), ["record snapshot"]);
  assert.throws(() => step(live, snapshot(3)), AssertionFailed);
  assert.throws(() => stateAfter(live, snapshot(2), snapshot(1)), AssertionFailed);
});

test("F2: an application that does not keep up lets go of the connection until it has read everything", () => {
  const held = stateAfter(attached(), event(1), { kind: "hold" });
  assert.deepEqual(after(attached(), { kind: "hold" }), ["disconnect"]);
  assert.deepEqual(after(held, tick(1e9)), []);
  assert.deepEqual(after(held, { kind: "wake", nowMs: 5 }), []);
  const [, effects] = run(step, held, [{ kind: "drained", nowMs: 5 }]);
  assert.equal(only(effects, "connect")[0]?.attach.eventId, 1);
  assert.deepEqual(after(client(), { kind: "hold" }), []);
  assert.deepEqual(after(attached(), { kind: "drained", nowMs: 5 }), []);
});

test("F3: reading everything while a connection is being waited for does not cut the waiting short", () => {
  assert.deepEqual(after(attached(), lost(1, 0, 0.5), { kind: "drained", nowMs: 1 }), []);
});

test("D3: an abort does not wait until a slow application has read", () => {
  const held = stateAfter(attached(), event(1), { kind: "hold" });
  const [, effects] = run(step, held, [{ kind: "abort", nowMs: 5 }]);
  assert.equal(only(effects, "connect").length, 1);
});

test("credentials that are not to be had stop the client, and the journal can be resumed", () => {
  const asking = stateAfter(client(), tick(), refused("unauthenticated"));
  const stopped = stateAfter(asking, { kind: "no_credentials", message: "locked" });
  assert.deepEqual(
    [stopped.phase, stopped.outcome, stopped.failure?.code],
    ["stopped", undefined, "unauthenticated"],
  );
});

test("leaving ends nothing: the journal gets no outcome and can be resumed", () => {
  const [state, effects] = run(step, attached(), [{ kind: "leave" }]);
  assert.deepEqual(only(effects, "record"), []);
  assert.deepEqual([state.outcome, state.phase], [undefined, "stopped"]);
});

test("leaving lets go of a connection that is there, and of none that is not", () => {
  const connecting = stateAfter(client(), tick());
  assert.deepEqual(after(connecting, { kind: "leave" }), ["disconnect", "stopped"]);
  assert.deepEqual(after(attached(), { kind: "leave" }), ["disconnect", "stopped"]);
  assert.deepEqual(after(attached(), lost(), { kind: "leave" }), ["stopped"]);
});

test("F5: a journal that fails stops the client without deciding anything about the stream", () => {
  const [state, effects] = run(step, attached(), [say, { kind: "record_failed", message: "disk full" }]);
  assert.equal(state.failure?.code, "unavailable");
  assert.equal(state.outcome, undefined);
  assert.deepEqual(only(effects, "send_chunk"), []);
});

test("only what was ordered can be on disk", () => {
  assert.throws(() => step(attached(), recorded(1)), AssertionFailed);
});

test("D5: durability lost later decides nothing by itself: the error right after it does", () => {
  const head: Input = frame({ kind: "durability_lost", head: 3 });
  assert.deepEqual(after(attached(), head), []);
  assert.equal(liveState(stateAfter(attached(), head, refused("unavailable"))), "reconnecting");
});
