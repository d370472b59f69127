/**
 * What goes wrong around a client's stream: refusals, degraded servers, silence, sleep, old journals.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { liveState } from "../../src/core/client-state.ts";
import { type Input, step } from "../../src/core/client-stream.ts";
import type { JournalRecord } from "../../src/core/journal.ts";
import * as tools from "../../src/core/tool-journal.ts";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import {
  ack,
  after,
  answer,
  attached,
  client,
  event,
  exec,
  frame,
  heartbeat,
  lost,
  onDisk,
  OPTIONS,
  recorded,
  refused,
  say,
  type State,
  stateAfter,
  through,
  tick,
  welcome,
} from "./client.ts";
import { only, run } from "./run.ts";

const welcomedBefore: JournalRecord = { kind: "attached", serverTimeMs: 500 };

function ending(state: State, ...inputs: readonly Input[]): unknown {
  const [, effects] = run(step, state, inputs);
  const ended = only(effects, "record").find(({ order }) => order.kind === "ended");
  return ended?.order.kind === "ended" ? ended.order.outcome : undefined;
}

for (const [code, outcome] of [
  ["fenced", "fenced"],
  ["not_found", "lost"],
  ["seqno_conflict", "lost"],
  ["stream_gone", "lost"],
  ["events_gone", "lost"],
  ["unsupported_version", undefined],
] as const) {
  test(`${code} stops the client, and the journal ${outcome === undefined ? "stays open" : `says ${outcome}`}`, () => {
    assert.equal(ending(attached(), refused(code)), outcome);
    const stopped = stateAfter(attached(), refused(code));
    assert.equal(stopped.phase, "stopped");
    assert.equal(stopped.failure?.code, code);
    assert.equal(liveState(stopped), code === "fenced" ? "fenced" : "ended");
  });
}

test("F3: a refusal that may pass is tried again, with everything kept", () => {
  for (const code of ["unavailable", "overloaded", "internal", "seqno_gap"] satisfies ErrorCode[]) {
    const waiting = stateAfter(attached(), say, recorded(1), refused(code));
    assert.equal(waiting.phase, "waiting");
    assert.deepEqual(after(waiting, tick(1_000)), ["connect"]);
  }
});

test("F3: the server's retryAfter is respected, by the clock and by a wake", () => {
  const busy = frame({ kind: "error", code: "overloaded", message: "busy", retryAfterMs: 7_000 });
  const waiting = stateAfter(attached(), busy);
  assert.deepEqual(after(waiting, tick(6_999)), []);
  assert.deepEqual(after(waiting, { kind: "wake", nowMs: 10 }), []);
  assert.deepEqual(after(waiting, { kind: "wake", nowMs: 10 }, tick(7_000)), ["connect"]);
});

test("F3: a wake that has to wait for the server does not wait for the jitter as well", () => {
  const loss = { code: "overloaded", message: "busy", retryAfterMs: 7_000, nowMs: 0, random: 0.99 } as const;
  const waiting = stateAfter(attached(), { kind: "lost", connection: 1, ...loss });
  assert.deepEqual(after(waiting, tick(7_000)), []);
  assert.deepEqual(after(waiting, { kind: "wake", nowMs: 10 }, tick(7_000)), ["connect"]);
});

test("F3: a wake cuts the waiting short, and is nothing while connected", () => {
  const waiting = stateAfter(attached(), lost(1, 0, 0.99));
  assert.deepEqual(after(waiting, tick(5)), []);
  assert.deepEqual(after(waiting, { kind: "wake", nowMs: 5 }), ["connect"]);
  assert.deepEqual(after(attached(), { kind: "wake", nowMs: 5 }), []);
});

test("F3: delays grow with every loss and shrink when something moved, not when a welcome came", () => {
  const flap = (connection: number, ...moved: readonly Input[]): readonly Input[] => [
    ...moved,
    lost(connection, 0, 0.99),
    tick(100_000),
    welcome({}, connection + 1),
  ];
  const delayAfter = (...inputs: readonly Input[]): unknown =>
    stateAfter(attached(), ...inputs, lost(3, 0, 0.99)).wakeAtMs;
  assert.equal(delayAfter(...flap(1), ...flap(2)), 223);
  assert.equal(delayAfter(...flap(1), ...flap(2), event(1, undefined, 3)), 99);
});

test("credentials that have worked once are asked for again when they run out", () => {
  const renewed = [refused("unauthenticated"), { kind: "credentials", nowMs: 1 }, welcome({}, 2)] as const;
  assert.deepEqual(after(attached(), ...renewed, refused("unauthenticated", 2)), [
    "disconnect",
    "ask_credentials",
  ]);
});

test("the credentials are asked for once; with them the client connects, without it stops and can be resumed", () => {
  const asking = stateAfter(attached(), refused("unauthenticated"));
  assert.deepEqual(after(attached(), refused("unauthenticated")), ["disconnect", "ask_credentials"]);
  assert.deepEqual(after(asking, tick(1e6)), []);
  assert.deepEqual(after(attached(), { kind: "credentials", nowMs: 1 }), []);
  const again = stateAfter(asking, { kind: "credentials", nowMs: 1 });
  assert.equal(again.phase, "connecting");
  const stopped = stateAfter(again, refused("unauthenticated", 2));
  assert.deepEqual([stopped.phase, stopped.outcome], ["stopped", undefined]);
});

test("F4: a connection without a welcome is given up after its time", () => {
  const connecting = stateAfter(client(), tick());
  assert.deepEqual(after(connecting, tick(OPTIONS.attachTimeoutMs - 1)), []);
  assert.deepEqual(after(connecting, tick(OPTIONS.attachTimeoutMs)), ["disconnect"]);
  assert.equal(liveState(connecting), "connecting");
});

test("F4: silence is reported and probed, then ends the connection", () => {
  assert.deepEqual(after(attached(), tick(15_001)), ["stalled silence", "send_heartbeat"]);
  assert.equal(liveState(stateAfter(attached(), tick(15_001))), "stalled");
  assert.equal(liveState(stateAfter(attached(), tick(15_001), heartbeat(0, 0, false, 15_002))), "live");
  assert.deepEqual(after(attached(), tick(15_001), tick(30_001)), ["disconnect"]);
});

test("F4: heartbeats without progress end the connection while an answer is due, and not before a first word", () => {
  const spoken = stateAfter(attached(), say, recorded(1), ack(0));
  const alive = heartbeat(1, 0, false, 120_000);
  assert.deepEqual(after(spoken, alive, tick(120_001)), ["stalled no_progress", "disconnect"]);
  const moving = stateAfter(spoken, event(1, undefined, 1, 90_000), heartbeat(1, 1, false, 120_000));
  assert.deepEqual(after(moving, tick(120_001)), ["send_heartbeat"]);
  assert.deepEqual(after(attached(), heartbeat(0, 0, false, 120_000), tick(120_001)), ["send_heartbeat"]);
});

test("F4: a reader cannot tell what the writer waits for, so only silence is a stall for it", () => {
  const reader = attached({ role: "reader" });
  assert.deepEqual(after(reader, heartbeat(3, 0, false, 120_000), tick(120_001)), ["send_heartbeat"]);
  assert.deepEqual(after(reader, tick(15_001)), ["stalled silence", "send_heartbeat"]);
});

test("D2: a reader lives through heartbeats that speak of the writer's chunks", () => {
  const reader = attached({ role: "reader" }, { nextSeqno: 4 });
  assert.deepEqual(after(reader, heartbeat(5, 0)), []);
  assert.equal(liveState(stateAfter(reader, heartbeat(5, 0))), "live");
});

test("heartbeats leave on time", () => {
  assert.deepEqual(after(attached(), tick(OPTIONS.heartbeatIntervalMs - 1)), []);
  assert.deepEqual(after(attached(), tick(OPTIONS.heartbeatIntervalMs)), ["send_heartbeat"]);
});

const degraded = onDisk(
  stateAfter(client({ fresh: true }), say, tick(), welcome({ degraded: true, durability: "none" })),
);

test("D5: a degraded stream says so, in the journal too, and its events have no ids", () => {
  assert.equal(liveState(degraded), "degraded");
  const opened = through(client({ fresh: true }), say, tick(), welcome({ degraded: true }));
  assert.deepEqual(
    opened.filter((one) => one.startsWith("record")),
    ["record said", "record degraded"],
  );
  assert.deepEqual(after(degraded, event(0)), ["deliver 0"]);
  assert.deepEqual(after(degraded, event(0), event(0)), ["deliver 0"]);
});

test("D5: a break ends a degraded stream; so does its end", () => {
  assert.equal(ending(degraded, lost()), "lost");
  assert.equal(ending(degraded, event(0, "completed")), "completed");
});

test("D5: a degraded server never acks, so what was sent needs no room", () => {
  assert.equal(degraded.outbox.unackedBytes.length, 0);
  const more = stateAfter(degraded, say, recorded(1));
  assert.deepEqual(after(degraded, say, recorded(1)), ["send 1", "release"]);
  assert.equal(more.outbox.unackedBytes.length, 0);
  assert.deepEqual(after(more, ack(0), heartbeat(9, 9)), []);
});

test("D5: tools run on a degraded stream too, and are settled when their result is sent", () => {
  const live = stateAfter(degraded, event(0));
  assert.deepEqual(through(live, exec(0), recorded(1), recorded(1)), [
    "record received",
    "record started",
    "run",
  ]);
  const answered = stateAfter(live, exec(0), recorded(1), recorded(1), answer(), recorded(1));
  assert.equal(tools.find(answered.tools, "x1")?.phase, "acked");
});

test("D5: a client that wants durability takes no degraded stream, and tries again", () => {
  const strict = client({ fresh: true, options: { allowDegraded: false } });
  assert.deepEqual(after(strict, say, tick(), welcome({ degraded: true })), ["disconnect"]);
  assert.equal(stateAfter(strict, say, tick(), welcome({ degraded: true })).phase, "waiting");
});

test("D5: one bad node that answers an existing stream degraded destroys nothing", () => {
  const said: JournalRecord = {
    kind: "said",
    seqno: 0,
    isClose: false,
    body: new Uint8Array(1),
    execId: undefined,
  };
  const acked: JournalRecord = { kind: "acked", nextSeqno: 1 };
  for (const records of [[welcomedBefore], [welcomedBefore, said, acked]]) {
    const [state, effects] = run(step, client({ records }), [tick(), welcome({ degraded: true })]);
    assert.deepEqual(only(effects, "record"), []);
    assert.equal(state.phase, "waiting");
  }
});

test("a stream that was not to be reliable ends with its connection", () => {
  const plain = attached({ options: { reliable: false } });
  assert.equal(ending(plain, lost()), "lost");
});

test("a stream that was not to be reliable still says why it was refused", () => {
  const plain = attached({ options: { reliable: false } });
  assert.equal(stateAfter(plain, refused("fenced")).failure?.code, "fenced");
  assert.equal(ending(plain, refused("fenced")), "fenced");
});

const old = { records: [welcomedBefore], autoResume: true };
const late = 500 + OPTIONS.retryLookbackWindowMs + 1;

test("D7: a journal found at start is resumed only within the window, by the server's clock", () => {
  assert.equal(stateAfter(client(old), tick(), welcome({ serverTimeMs: late })).phase, "stopped");
  assert.equal(stateAfter(client(old), tick(), welcome({ serverTimeMs: late - 1 })).phase, "attached");
});

test("D7: a stream outside the window is left as it is: nothing is recorded, and it can be resumed by its name", () => {
  const [state, effects] = run(step, client(old), [tick(), welcome({ serverTimeMs: late })]);
  assert.deepEqual(only(effects, "record"), []);
  assert.deepEqual([state.outcome, state.isSkipped, state.failure?.code], [undefined, true, "stream_ended"]);
});

test("D7: the window counts from the later of the client's last sight and the server's last activity", () => {
  const active = welcome({ serverTimeMs: late, lastActivityMs: late - OPTIONS.retryLookbackWindowMs });
  assert.equal(stateAfter(client(old), tick(), active).phase, "attached");
  const quiet = welcome({ serverTimeMs: late, lastActivityMs: late - OPTIONS.retryLookbackWindowMs - 1 });
  assert.equal(stateAfter(client(old), tick(), quiet).isSkipped, true);
  const seen = welcome({ serverTimeMs: late - 1, lastActivityMs: 1 });
  assert.equal(stateAfter(client(old), tick(), seen).phase, "attached");
});

test("D7: whoever asks for an old stream by name gets it, and so does a reconnect", () => {
  const asked = client({ records: [welcomedBefore] });
  assert.equal(stateAfter(asked, tick(), welcome({ serverTimeMs: late })).phase, "attached");
  const resumed = stateAfter(client(old), tick(), welcome({ serverTimeMs: 600 }), lost(), tick(1_000));
  assert.equal(stateAfter(resumed, welcome({ serverTimeMs: late + 600 }, 2)).phase, "attached");
});

test("D7: the window counts from the last sign of life, not from the last welcome", () => {
  const hour = 3_600_000;
  const [, effects] = run(step, attached({}, { serverTimeMs: 500 }), [
    heartbeat(0, 0, false, hour),
    tick(hour),
    heartbeat(0, 0, false, hour + 1),
    tick(hour + 5_000),
  ]);
  assert.deepEqual(only(effects, "record"), [
    { kind: "record", order: { kind: "attached", serverTimeMs: 500 + hour }, needs: "sync" },
  ]);
});
