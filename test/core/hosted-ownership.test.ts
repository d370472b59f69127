/**
 * Who writes a stream: epochs, takeovers, fences, and the moments in between.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { step } from "../../src/core/hosted-stream.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import {
  after,
  attach,
  chunk,
  closed,
  committed,
  emit,
  heartbeat,
  host,
  hosted,
  read,
  stateAfter,
  through,
  tick,
  words,
} from "./host.ts";
import { only, run } from "./run.ts";

test("D1: a new writer is welcomed when its epoch is durable", () => {
  assert.deepEqual(after(host(), attach(1, "laptop")), ["commit"]);
  assert.deepEqual(after(host(), attach(1, "laptop"), committed()), ["1: welcome"]);
});

test("D1: the same journal comes back under its epoch, and replaces the connection it had", () => {
  assert.deepEqual(after(hosted, attach(2, "laptop")), ["1: disconnect", "2: welcome"]);
  const back = stateAfter(hosted, attach(2, "laptop"));
  assert.deepEqual(after(back, chunk(1, 0)), []);
  assert.deepEqual(after(back, chunk(2, 0)), ["stage chunk 0", "commit"]);
});

test("D1: a journal that comes back while its first epoch is being committed waits for that commit", () => {
  const [, effects] = run(step, host(), [attach(1, "laptop"), closed(1), attach(2, "laptop"), committed()]);
  assert.equal(only(effects, "commit").length, 1);
  assert.deepEqual(words(effects).at(-1), "2: welcome");
});

test("D2: a takeover is told to the application, and fences the writer before once it is durable", () => {
  assert.deepEqual(after(hosted, attach(2, "phone")), ["tell_takeover", "commit"]);
  assert.deepEqual(after(hosted, attach(2, "phone"), committed()), [
    "1: fenced",
    "1: disconnect",
    "2: welcome",
  ]);
});

test("D2: a takeover begins where both logs stand, with everything staged before it", () => {
  const [state, effects] = run(step, hosted, [chunk(1, 0), emit, emit, attach(2, "phone")]);
  assert.deepEqual(only(effects, "tell_takeover"), [{ kind: "tell_takeover", sinceSeqno: 1, sinceEvent: 2 }]);
  const [, sent] = run(step, state, [committed(), committed()]);
  const frame = only(sent, "send").find((one) => one.connection === 2)?.frame;
  assert.ok(frame?.kind === "welcome");
  assert.deepEqual([frame.nextSeqno, frame.writerSinceEvent, frame.writerEpoch], [1, 2, 2]);
});

test("A1, D1: from the takeover on the old writer's chunks are not accepted, although it is not yet durable", () => {
  const effects = after(hosted, attach(2, "phone"), chunk(1, 0));
  assert.ok(!effects.includes("stage chunk 0"), effects.join(", "));
});

test("D1: nobody hears of a fence that a crash could still undo", () => {
  assert.ok(!through(hosted, attach(2, "phone"), chunk(1, 0)).includes("1: fenced"));
  assert.ok(!through(hosted, attach(2, "phone"), attach(3, "laptop")).includes("3: fenced"));
});

test("D1: the old writer's journal is fenced when it comes back after the takeover", () => {
  assert.deepEqual(after(hosted, attach(2, "phone"), committed(), attach(3, "laptop")), [
    "3: fenced",
    "3: disconnect",
  ]);
});

test("D1, D2: a writer that was overtaken before its welcome is fenced, never welcomed as the writer", () => {
  const [, effects] = run(step, hosted, [
    emit,
    attach(2, "phone"),
    attach(3, "tablet"),
    emit,
    committed(),
    committed(),
  ]);
  const toPhone = words(effects).filter((one) => one.startsWith("2: "));
  assert.deepEqual(toPhone, ["2: fenced", "2: disconnect"]);
  assert.ok(words(effects).includes("3: welcome"));
});

test("D1: a chunk under another epoch than its connection's is not accepted, whichever way round", () => {
  const old = after(hosted, attach(2, "phone"), committed(), chunk(2, 0, { writerEpoch: 1 }));
  assert.deepEqual(old, ["2: fenced", "2: disconnect"]);
  const ahead = after(hosted, attach(2, "phone"), chunk(1, 0, { writerEpoch: 2 }));
  assert.ok(!ahead.includes("stage chunk 0"), ahead.join(", "));
});

test("D2: readers get every event and may not speak", () => {
  const both = stateAfter(hosted, read(2));
  assert.deepEqual(after(both, emit, committed()), ["1: read 1", "2: read 1"]);
  assert.deepEqual(after(both, chunk(1, 0), committed()), ["1: ack 0"]);
  assert.deepEqual(after(both, chunk(2, 0)), ["2: invalid_frame", "2: disconnect"]);
});

test("D2: a takeover leaves readers alone, also one with the old writer's journal", () => {
  const watching = stateAfter(hosted, attach(5, "laptop", { role: "reader" }));
  assert.deepEqual(after(watching, attach(2, "phone"), committed()), [
    "1: fenced",
    "1: disconnect",
    "2: welcome",
  ]);
});

test("a detach changes nothing durable", () => {
  assert.deepEqual(after(hosted, closed(1)), []);
  const gone = stateAfter(hosted, closed(1));
  assert.deepEqual(
    [gone.durable, gone.staged, gone.waiting],
    [hosted.durable, hosted.staged, hosted.waiting],
  );
});

test("F1: a detach is no end: the application goes on and its events wait in the log", () => {
  assert.deepEqual(after(hosted, closed(1), emit, committed(), attach(2, "laptop")), [
    "2: welcome",
    "2: read 1",
  ]);
});

const crowd = Array.from({ length: LIMITS.readersPerStreamMax }, (_, at) => read(100 + at));

test("E8: 16 readers may be attached, the 17th is refused", () => {
  assert.equal(after(host(), ...crowd).at(-1), "115: welcome");
  assert.deepEqual(after(host(), ...crowd, read(200)), ["200: overloaded", "200: disconnect"]);
});

test("E8: readers never lock the writer out", () => {
  assert.deepEqual(after(hosted, closed(1), ...crowd, attach(2, "laptop")), ["2: welcome"]);
});

test("D7: a writer that has been cut for its silence no longer keeps the stream", () => {
  const silent = stateAfter(hosted, tick(1e9));
  assert.deepEqual(after(silent, heartbeat(1, 1e9), tick(2e9)), []);
});

test("E8, F2: a client that ignores the limit of unacknowledged chunks is cut, while a commit is slow", () => {
  const flood = Array.from({ length: LIMITS.unackedChunksMax + 1 }, (_, seqno) =>
    chunk(1, seqno, { content: seqno % 256 }),
  );
  const staged = stateAfter(hosted, ...flood.slice(0, -1));
  assert.equal(staged.staged.nextSeqno, LIMITS.unackedChunksMax);
  assert.ok(!after(hosted, ...flood).includes(`stage chunk ${String(LIMITS.unackedChunksMax)}`));
});
