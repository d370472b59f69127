/**
 * A server's stream: staging, committing, acknowledging, sending, ending.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import { hasReaderBehind } from "../../src/core/host-state.ts";
import { type Input, isForsaken, step } from "../../src/core/hosted-stream.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import {
  abort,
  after,
  attach,
  chunk,
  closed,
  committed,
  emit,
  end,
  heartbeat,
  host,
  hosted,
  macOf,
  opening,
  OPTIONS,
  read,
  stateAfter,
  tick,
  words,
  written,
} from "./host.ts";
import { only, run } from "./run.ts";

test("A3: a chunk is acknowledged when its commit is durable", () => {
  assert.deepEqual(after(hosted, chunk(1, 0)), ["stage chunk 0", "commit"]);
  assert.deepEqual(after(hosted, chunk(1, 0), committed()), ["1: ack 0"]);
});

test("B2: an event is read to connections only when it is durable", () => {
  assert.deepEqual(after(hosted, emit), ["stage_event", "commit"]);
  assert.deepEqual(after(hosted, emit, committed()), ["1: read 1"]);
});

test("a stream is forsaken when ticks have found no client for a while, and no writer asks for it elsewhere", () => {
  const { restMs } = OPTIONS;
  const at = (nowMs: number, ...inputs: readonly Input[]): boolean =>
    isForsaken(stateAfter(hosted, ...inputs), nowMs);
  assert.equal(at(9 * restMs, closed(1)), false, "no tick has seen it so");
  assert.equal(at(restMs, closed(1), tick(0)), true);
  assert.equal(at(restMs - 1, closed(1), tick(0)), false);
  assert.equal(at(restMs, tick(0)), false, "a client is attached");
  assert.equal(at(restMs + 4, tick(5), closed(1), tick(9)), false, "a client was attached until then");
  assert.equal(at(restMs + 5, tick(5), closed(1), tick(9)), true);
  const said = { kind: "attach", frame: attach(2, "phone").frame, writerEpoch: 2 } as const;
  assert.equal(at(restMs, closed(1), { kind: "letter", said, nowMs: 0 }, tick(0)), false);
});

/** The attach that makes a stream. */
const born: Input = { ...opening(1, "laptop"), resumed: false };

test("a host that gathers commits at the end of a turn what the whole turn has staged", () => {
  const gathering = host({}, { ...OPTIONS, gathers: true });
  const gathered: Input = { kind: "gathered" };
  assert.deepEqual(after(gathering, born), ["stage chunk 0", "gather"]);
  assert.deepEqual(after(gathering, born, emit), ["stage_event"]);
  const turn = [born, emit, emit, gathered];
  const [, effects] = run(step, gathering, turn);
  assert.deepEqual(
    only(effects, "commit").map(({ shape }) => [shape.chunkCount, shape.eventCount]),
    [[1, 2]],
  );
  // Nothing leaves before its commit, and what the next turn stages waits for its own end.
  assert.deepEqual(only(effects, "send"), []);
  assert.deepEqual(after(gathering, ...turn, emit), ["stage_event"]);
  assert.deepEqual(after(gathering, ...turn, emit, committed()).at(-1), "gather");
  assert.throws(() => after(gathering, gathered), AssertionFailed);
});

test("a client that returns is welcomed by a commit of its own: what its return causes is behind the head that it is told", () => {
  const gathering = host({ nextSeqno: 1, eventHead: 3 }, { ...OPTIONS, gathers: true });
  const [, effects] = run(step, gathering, [attach(1, "laptop"), emit]);
  assert.deepEqual(
    only(effects, "commit").map(({ shape }) => shape.eventCount),
    [0],
  );
  assert.deepEqual(only(effects, "gather"), []);
});

test("a host that is dropped while it gathers commits nothing", () => {
  const gathering = host({}, { ...OPTIONS, gathers: true });
  const dropped: Input = { kind: "drop", reason: "moved" };
  assert.deepEqual(after(gathering, born, dropped, { kind: "gathered" }), []);
});

test("a connection is behind until it has what is durable, and while it can take more", () => {
  const behind = stateAfter(host({ eventHead: 3 }), read(1));
  assert.equal(hasReaderBehind(behind), true);
  assert.equal(hasReaderBehind(stateAfter(behind, written(1, 2))), true);
  assert.equal(hasReaderBehind(stateAfter(behind, written(1, 3))), false);
  assert.equal(hasReaderBehind(stateAfter(behind, written(1, 2, LIMITS.sendQueueBytesMax))), false);
  assert.equal(hasReaderBehind(stateAfter(behind, closed(1))), false);
  // Before its welcome it will want them.
  assert.equal(hasReaderBehind(stateAfter(host({ eventHead: 3 }), attach(1, "laptop"))), true);
});

test("one commit is in flight at a time, and everything staged meanwhile shares the next", () => {
  const [, effects] = run(step, hosted, [emit, chunk(1, 0), emit, chunk(1, 1), committed()]);
  const commits = only(effects, "commit");
  assert.deepEqual(
    commits.map(({ shape }) => [shape.chunkCount, shape.eventCount]),
    [
      [0, 1],
      [2, 1],
    ],
  );
  assert.deepEqual(
    commits.map(({ expected }) => [expected.nextSeqno, expected.eventHead]),
    [
      [0, 0],
      [0, 1],
    ],
  );
});

test("A3: an ack covers what its commit covered and not what was staged meanwhile", () => {
  const inFlight = [chunk(1, 0), chunk(1, 1), committed()];
  assert.deepEqual(after(hosted, ...inFlight), ["1: ack 0", "commit"]);
  assert.deepEqual(after(hosted, ...inFlight, committed()), ["1: ack 1"]);
});

test("A2: a duplicate is acknowledged again once durable, a different one is a conflict that ends the connection", () => {
  assert.deepEqual(after(hosted, chunk(1, 0), chunk(1, 0)), []);
  assert.deepEqual(after(hosted, chunk(1, 0), committed(), chunk(1, 0)), ["1: ack 0"]);
  assert.deepEqual(after(hosted, chunk(1, 0), chunk(1, 0, { content: 9 })), [
    "1: seqno_conflict",
    "1: disconnect",
  ]);
});

test("A1: a gap ends the connection, and nothing behind it is kept", () => {
  assert.deepEqual(after(hosted, chunk(1, 1)), ["1: seqno_gap", "1: disconnect"]);
  assert.deepEqual(after(hosted, chunk(1, 1), chunk(1, 0)), []);
});

test("A5: an inline chunk 0 and the new writer are one commit, and the welcome acknowledges both", () => {
  const [state, effects] = run(step, host(), [opening(1, "laptop")]);
  assert.deepEqual(words(effects), ["stage chunk 0", "commit"]);
  assert.equal(only(effects, "commit")[0]?.shape.change.writer?.writers.length, 1);
  const [welcomeSent] = only(run(step, state, [committed()])[1], "send");
  assert.ok(welcomeSent?.frame.kind === "welcome");
  assert.equal(welcomeSent.frame.nextSeqno, 1);
  assert.deepEqual(after(state, committed(), chunk(1, 1)), ["stage chunk 1", "commit"]);
});

test("the welcome is the first frame, also when an inline chunk 0 comes a second time", () => {
  const frames = after(hosted, chunk(1, 0), committed(), opening(2, "laptop"));
  assert.equal(
    frames.find((one) => one.startsWith("2: ")),
    "2: welcome",
  );
});

test("A6: a welcome says what is durable, not what is staged", () => {
  const [, effects] = run(step, hosted, [chunk(1, 0), committed(), chunk(1, 1), emit, attach(2, "laptop")]);
  const frame = only(effects, "send").at(-1)?.frame;
  assert.ok(frame?.kind === "welcome");
  assert.deepEqual([frame.nextSeqno, frame.eventHead, frame.degraded], [1, 0, false]);
});

test("B8: a reader resumes at its cursor + 1 and goes on live, each connection by itself", () => {
  const three = stateAfter(host({ eventHead: 3 }), read(1, 1), read(2, 3));
  assert.deepEqual(after(host({ eventHead: 3 }), read(1, 1)), ["1: welcome", "1: read 2"]);
  assert.deepEqual(after(three, emit, committed()), ["2: read 4"]);
  assert.deepEqual(after(three, emit, committed(), written(1, 3)), ["1: read 4"]);
});

test("what was read for a connection that is gone is nobody's", () => {
  assert.deepEqual(after(host({ eventHead: 3 }), read(1), closed(1), written(1, 3)), []);
});

test("E8: a reader that is too slow is cut, and the others go on", () => {
  const both = stateAfter(host({ eventHead: 3 }), read(1), read(2));
  assert.deepEqual(after(both, written(1, 1, LIMITS.sendQueueBytesMax + 1)), [
    "1: overloaded",
    "1: disconnect",
  ]);
  const blocked = stateAfter(
    both,
    written(1, 1, LIMITS.sendQueueBytesMax),
    heartbeat(1, 30_001),
    heartbeat(2, 30_001),
  );
  assert.deepEqual(after(blocked, tick(30_001)), [
    "1: heartbeat",
    "1: overloaded",
    "1: disconnect",
    "2: heartbeat",
  ]);
});

test("B5: below the floor is gone, ahead of the head was never sent, neither is clamped", () => {
  const trimmed = host({ eventHead: 9, eventFloor: 5 });
  assert.deepEqual(after(trimmed, read(1, 3)), ["1: events_gone", "1: disconnect"]);
  assert.deepEqual(after(trimmed, read(1, 10)), ["1: event_ahead", "1: disconnect"]);
  assert.deepEqual(after(trimmed, read(1, 4)), ["1: welcome", "1: read 5"]);
});

const trim = (eventFloor: number): Input => ({ kind: "trim", eventFloor });

const over = { eventHead: 9, end: "completed" } as const;

test("a turn that runs is never trimmed: its application may have to be rebuilt from the whole log", () => {
  assert.deepEqual(after(host({ eventHead: 9 }), trim(6)), []);
});

test("B5: a trim cuts readers off that have not got that far, and only those", () => {
  const readers = stateAfter(host(over), read(1, 2), read(2, 8));
  assert.deepEqual(after(readers, trim(6), committed()), ["1: events_gone", "1: disconnect"]);
});

test("B5: a new writer that waits for its welcome is not led below a floor that rose meanwhile", () => {
  const [, effects] = run(step, host(over), [
    attach(1, "laptop", { eventId: 2 }),
    trim(6),
    committed(),
    committed(),
  ]);
  assert.ok(!words(effects).includes("1: read 6") && words(effects).includes("1: events_gone"));
});

test("a trim that changes nothing costs no commit", () => {
  assert.deepEqual(after(host({ ...over, eventFloor: 4 }), trim(3)), []);
});

test("B5: a trim never takes what is not durable", () => {
  const ending = stateAfter(host({ eventHead: 9, eventFloor: 4 }), end, trim(99));
  assert.equal(ending.staged.eventFloor, 9);
});

test("D3: an abort is recorded, the application told, and every event after it refused", () => {
  assert.deepEqual(after(hosted, abort(1)), ["tell_abort", "commit"]);
  assert.deepEqual(after(hosted, abort(1), abort(1)), []);
  assert.deepEqual(after(hosted, abort(1), emit), ["refuse_event"]);
  const [, effects] = run(step, hosted, [abort(1), end]);
  assert.deepEqual(only(effects, "stage_event"), [{ kind: "stage_event", end: "aborted" }]);
});

test("D3: a heartbeat says aborted at once when it is durable, and so does each later one and each welcome", () => {
  const said = (...inputs: readonly Input[]): readonly boolean[] =>
    only(run(step, hosted, inputs)[1], "send").flatMap(({ frame }) =>
      frame.kind === "heartbeat" || frame.kind === "welcome" ? [frame.aborted] : [],
    );
  assert.deepEqual(said(abort(1), tick(1), committed(), tick(2), read(2)), [false, true, true, true]);
});

test("D3: an abort that comes with an attach is recorded first, whatever becomes of the attach", () => {
  const aborting = attach(2, "laptop", { abort: true });
  assert.deepEqual(after(hosted, aborting), ["tell_abort", "1: disconnect", "2: welcome", "commit"]);
  assert.deepEqual(after(hosted, abort(1), committed(), aborting), ["1: disconnect", "2: welcome"]);
  const ahead = attach(2, "laptop", { abort: true, eventId: 99 });
  // Turned away for good only once the abort is durable: until then the client is to come back.
  assert.deepEqual(after(hosted, ahead), ["tell_abort", "2: unavailable", "2: disconnect", "commit"]);
  assert.deepEqual(after(hosted, ahead, committed(), ahead), ["2: event_ahead", "2: disconnect"]);
  const due = stateAfter(hosted, aborting, committed(), heartbeat(2, 1));
  assert.ok(after(due, tick(OPTIONS.abortGraceMs)).includes("stage_event"));
});

test("D3: any attached client may abort, a reader too", () => {
  assert.deepEqual(after(hosted, read(2), abort(2)), ["tell_abort", "commit"]);
});

test("F1: an application that does not end after an abort is ended after its grace", () => {
  const aborted = stateAfter(hosted, abort(1, 100), committed());
  const due = 100 + OPTIONS.abortGraceMs;
  assert.ok(!after(aborted, tick(due - 1)).includes("stage_event"));
  assert.deepEqual(after(aborted, tick(due)), ["1: heartbeat", "stage_event", "commit"]);
  assert.ok(!after(aborted, end, committed(), tick(due)).includes("stage_event"));
});

test("F1: a host that finds a stream aborted and not ended ends it at its first tick", () => {
  assert.deepEqual(after(host({ aborted: true }), tick(0)), ["stage_event", "commit"]);
  assert.deepEqual(after(host({ aborted: true, end: "aborted", eventHead: 1 }), tick(0)), []);
});

test("B6: after the end there are no events, and a late chunk does not cut its sender off from the end", () => {
  const ended = stateAfter(hosted, end);
  assert.deepEqual(after(ended, emit), ["refuse_event"]);
  assert.deepEqual(after(ended, end), ["refuse_event"]);
  assert.deepEqual(after(ended, chunk(1, 0)), []);
  assert.deepEqual(after(ended, committed()), ["1: read 1"]);
});

test("A2: other content under a taken seqno is refused also when the end is on its way", () => {
  const ended = stateAfter(hosted, chunk(1, 0), end);
  assert.deepEqual(after(ended, chunk(1, 0, { content: 9 })), ["1: seqno_conflict", "1: disconnect"]);
});

test("B6: whoever attaches to a stream that has ended is welcomed and gets what is left of it, the end included", () => {
  const ended = host({ eventHead: 3, end: "completed" });
  assert.deepEqual(after(ended, read(1, 2)), ["1: welcome", "1: read 3"]);
  const frame = only(run(step, ended, [read(1, 2)])[1], "send")[0]?.frame;
  assert.ok(frame?.kind === "welcome" && frame.message !== "attached");
});

test("A1: nothing follows a close", () => {
  const closing: Input = {
    kind: "chunk",
    connection: 1,
    seqno: 0,
    writerEpoch: 1,
    mac: macOf(0),
    bytes: 0,
    isClose: true,
    nowMs: 0,
  };
  const [state, effects] = run(step, hosted, [closing]);
  assert.equal(only(effects, "commit")[0]?.shape.change.closed, true);
  const frame = only(run(step, state, [committed(), read(2)])[1], "send").at(-1)?.frame;
  assert.ok(frame?.kind === "welcome" && frame.closed);
  assert.deepEqual(words(run(step, state, [chunk(1, 1)])[1]), ["1: stream_ended", "1: disconnect"]);
});

test("a client that says nothing for too long is gone; its heartbeats and chunks keep it", () => {
  const late = OPTIONS.clientSilenceMs + 1;
  assert.deepEqual(after(hosted, tick(late)), ["1: disconnect"]);
  assert.deepEqual(after(hosted, heartbeat(1, 1), tick(late)), ["1: heartbeat"]);
  assert.deepEqual(after(hosted, heartbeat(7, 1)), []);
});

test("B7: a heartbeat names the last event handed to this connection, not the head", () => {
  const [, effects] = run(step, host({ eventHead: 3 }), [read(1), written(1, 2), tick(1)]);
  const frame = only(effects, "send").at(-1)?.frame;
  assert.ok(frame?.kind === "heartbeat");
  assert.equal(frame.eventHead, 2);
});

test("D7: an attached writer counts as activity, a reader does not", () => {
  const quarter = OPTIONS.retention.retentionMs / 4;
  const kept = stateAfter(hosted, heartbeat(1, quarter + 1));
  assert.deepEqual(after(kept, tick(quarter)), ["1: heartbeat"]);
  assert.deepEqual(after(kept, tick(quarter + 1)), ["1: heartbeat", "commit"]);
  assert.equal(stateAfter(kept, tick(quarter + 1), committed(quarter + 1)).durable.activityMs, quarter + 1);
  assert.deepEqual(after(host(), read(1), heartbeat(1, quarter + 1), tick(quarter + 1)), ["1: heartbeat"]);
});

test("D7: a host whose clock is hours behind the store's renews an attached writer's stream all the same", () => {
  const quarter = OPTIONS.retention.retentionMs / 4;
  const behind = stateAfter(host({ activityMs: 1e9 }), attach(1, "laptop"), committed(1));
  const kept = stateAfter(behind, heartbeat(1, quarter + 2));
  assert.deepEqual(after(kept, tick(quarter + 1)), ["1: heartbeat"]);
  assert.deepEqual(after(kept, tick(quarter + 2)), ["1: heartbeat", "commit"]);
});

test("D5, F5: when the store fails nothing undurable is told, everybody hears where the log ends, and it is over", () => {
  const [state, effects] = run(step, hosted, [chunk(1, 0), { kind: "drop", reason: "durability_lost" }]);
  assert.deepEqual(words(effects).slice(2), [
    "1: durability_lost",
    "1: unavailable",
    "1: disconnect",
    "dropped",
  ]);
  for (const late of [committed(), emit, chunk(1, 1), tick(9), read(2)])
    assert.deepEqual(step(state, late), [state, []]);
});

test("D5: a connection that was not yet welcomed hears only that the server is unavailable", () => {
  assert.deepEqual(after(host(), attach(1, "laptop"), { kind: "drop", reason: "durability_lost" }), [
    "1: unavailable",
    "1: disconnect",
    "dropped",
  ]);
});

test("a host that moved or shuts down sends its clients away to come back; its own bug fails the stream", () => {
  for (const [reason, code] of [
    ["moved", "unavailable"],
    ["shutdown", "unavailable"],
    ["bug", "stream_failed"],
  ] as const) {
    assert.deepEqual(after(hosted, { kind: "drop", reason }), [`1: ${code}`, "1: disconnect", "dropped"]);
  }
});

test("the transport may refuse a connection for a frame that the machine never saw", () => {
  const refuse: Input = { kind: "refuse", connection: 1, code: "too_large", message: "too large" };
  assert.deepEqual(after(hosted, refuse), ["1: too_large", "1: disconnect"]);
});

test("a commit that nobody asked for is our own bug", () => {
  assert.throws(() => step(hosted, committed()), AssertionFailed);
});
