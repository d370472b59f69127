/**
 * The client's tool journal: at most one effect per exec, one outcome, and honesty after a crash.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as tools from "../../src/core/tool-journal.ts";
import { last, run } from "./run.ts";

type Requested = Extract<tools.Input, { kind: "requested" }>;

const shell: Requested = {
  kind: "requested",
  execId: "x1",
  eventId: 5,
  argsHash: "h1",
  repeatable: false,
  needsApproval: false,
};
const dangerous: Requested = { ...shell, needsApproval: true };
const repeatable: Requested = { ...shell, repeatable: true };
const recorded = (phase: "received" | "approved" | "started", nowMs = 0, execId = "x1"): tools.Input => {
  return { kind: "recorded", execId, phase, nowMs };
};
const approved = (untilMs = 1_000, argsHash = "h1"): tools.Input => {
  return { kind: "approved", execId: "x1", argsHash, untilMs };
};
const denied: tools.Input = { kind: "denied", execId: "x1" };
const answered = (seqno = 3, execId = "x1"): tools.Input => ({ kind: "answered", execId, seqno });
const acked = (nextSeqno: number): tools.Input => ({ kind: "acked", nextSeqno });
const attached = (nowMs = 0, sinceEvent = 0): tools.Input => ({ kind: "attached", sinceEvent, nowMs });
const aborted: tools.Input = { kind: "aborted" };

const [live] = run(tools.step, tools.init([], false), [attached()]);

function wanted(effects: readonly tools.Effect[]): readonly string[] {
  return effects.map((effect) => {
    if (effect.kind === "record") return `record ${effect.phase}`;
    return effect.kind === "report" ? `report ${effect.outcome}` : effect.kind;
  });
}
const after = (...inputs: readonly tools.Input[]): readonly string[] =>
  wanted(last(tools.step, live, inputs)[1]);
const through = (...inputs: readonly tools.Input[]): readonly string[] =>
  wanted(run(tools.step, live, inputs)[1]);

/** What a restarted client finds on disk, and does once it is attached. */
function restartedAt(phase: tools.Phase, request: Requested, more: readonly tools.Input[] = [attached()]) {
  const { kind: _, ...known } = request;
  const entry: tools.Entry = {
    ...known,
    phase,
    approvedUntilMs: phase === "received" ? 0 : 1_000,
    hand: "empty",
    mayHaveRun: false,
    isAborted: false,
    resultSeqno: phase === "done" || phase === "acked" ? 3 : undefined,
  };
  return wanted(run(tools.step, tools.init([entry], false), more)[1]);
}

test("C2: a tool runs only after received and started are on disk, in this order", () => {
  assert.deepEqual(through(shell), ["record received"]);
  assert.deepEqual(after(shell, recorded("received")), ["record started"]);
  assert.deepEqual(after(shell, recorded("received"), recorded("started")), ["run"]);
});

test("C2: a tool that needs approval is asked for, and runs only after approved is on disk too", () => {
  assert.deepEqual(after(dangerous, recorded("received")), ["ask"]);
  assert.deepEqual(after(dangerous, recorded("received"), approved()), ["record approved"]);
  assert.deepEqual(
    through(dangerous, recorded("received"), approved(), recorded("approved"), recorded("started")),
    ["record received", "ask", "record approved", "record started", "run"],
  );
});

test("C3, B3: a request that is delivered again joins what is there, in every phase", () => {
  const life = [shell, recorded("received"), recorded("started"), answered(), acked(4)];
  for (const [at] of life.entries()) {
    assert.deepEqual(after(...life.slice(0, at + 1), { ...shell, eventId: 50 + at }), []);
  }
});

test("C5: the same exec id with other arguments is recorded as a conflict and runs nothing", () => {
  assert.deepEqual(after(shell, recorded("received"), { ...shell, argsHash: "other" }), ["conflict"]);
});

test("C1: denied is an outcome, and the tool never runs", () => {
  assert.deepEqual(after(dangerous, recorded("received"), denied), ["report denied"]);
  assert.deepEqual(after(dangerous, recorded("received"), denied, answered(), approved()), []);
});

test("C1: approving twice while the first approval is being written runs the tool once", () => {
  const effects = through(
    dangerous,
    recorded("received"),
    approved(),
    approved(),
    recorded("approved"),
    recorded("started"),
  );
  assert.equal(effects.filter((effect) => effect === "record approved").length, 1);
  assert.equal(effects.filter((effect) => effect === "run").length, 1);
});

test("C1: an exec that was approved cannot be denied while the approval is being written", () => {
  assert.deepEqual(after(dangerous, recorded("received"), approved(), denied), []);
});

test("C1: an exec that was denied cannot be approved while its answer waits for room, nor denied again", () => {
  assert.deepEqual(after(dangerous, recorded("received"), denied, approved()), []);
  assert.deepEqual(after(dangerous, recorded("received"), denied, denied), []);
});

test("C7: an approval is for these arguments only", () => {
  assert.deepEqual(after(dangerous, recorded("received"), approved(1_000, "other")), []);
});

test("C7: an approval that ran out before it was used is asked for again", () => {
  assert.deepEqual(after(dangerous, recorded("received"), approved(1_000), recorded("approved", 999)), [
    "record started",
  ]);
  assert.deepEqual(after(dangerous, recorded("received"), approved(1_000), recorded("approved", 1_000)), [
    "ask",
  ]);
  const again = [
    dangerous,
    recorded("received"),
    approved(1_000),
    recorded("approved", 1_000),
    approved(2_000),
  ];
  assert.deepEqual(after(...again, recorded("approved", 1_500)), ["record started"]);
});

test("C7: an approval survives a restart, until it runs out", () => {
  assert.deepEqual(restartedAt("approved", dangerous, [attached(999)]), ["record started"]);
  assert.deepEqual(restartedAt("approved", dangerous, [attached(1_000)]), ["ask"]);
});

test("C2: crash after received: it is run, or asked for", () => {
  assert.deepEqual(restartedAt("received", shell), ["record started"]);
  assert.deepEqual(restartedAt("received", dangerous), ["ask"]);
});

test("C2: crash after started: it is not run again, what is left of it is stopped, the outcome is unknown", () => {
  assert.deepEqual(restartedAt("started", shell), ["stop_leftover", "report unknown"]);
});

test("C2: crash after started: a repeatable tool runs again, after its left-over is stopped and that is on disk", () => {
  assert.deepEqual(restartedAt("started", repeatable), ["stop_leftover", "record started"]);
  assert.deepEqual(restartedAt("started", repeatable, [attached(), recorded("started")]).at(-1), "run");
});

test("C7: an approval is used once: a repeatable tool that needs one is asked for before it runs again", () => {
  const effects = restartedAt("started", { ...dangerous, repeatable: true });
  assert.ok(!effects.includes("record started"), effects.join(", "));
});

test("C2: crash after done: nothing runs, the outbox has the result", () => {
  assert.deepEqual(restartedAt("done", shell), []);
  assert.deepEqual(restartedAt("acked", shell), []);
});

test("C3: a reconnect takes up nothing that is in hand already", () => {
  assert.deepEqual(after(shell, attached()), []);
  assert.deepEqual(after(shell, recorded("received"), attached()), []);
  assert.deepEqual(after(shell, recorded("received"), recorded("started"), attached()), []);
  assert.deepEqual(after(dangerous, recorded("received"), attached()), []);
});

test("D2: nobody acts before the server has welcomed this client as the writer", () => {
  const [unattached, effects] = run(tools.step, tools.init([], false), [shell, recorded("received")]);
  assert.deepEqual(wanted(effects), ["record received"]);
  assert.deepEqual(wanted(tools.step(unattached, attached())[1]), ["record started"]);
});

test("D2: execs from before this writer's time are not its business", () => {
  const [taken] = run(tools.step, tools.init([], false), [attached(0, 5)]);
  assert.deepEqual(tools.step(taken, shell)[1], []);
  assert.deepEqual(wanted(tools.step(taken, { ...shell, eventId: 6 })[1]), ["record received"]);
  assert.deepEqual(restartedAt("received", shell, [attached(0, 5)]), []);
});

test("D3: after an abort nothing starts any more, and what runs is stopped, once", () => {
  assert.deepEqual(after(shell, recorded("received"), recorded("started"), aborted), ["cancel"]);
  assert.deepEqual(after(shell, recorded("received"), recorded("started"), aborted, aborted), []);
  assert.deepEqual(after(shell, aborted, recorded("received")), ["report aborted"]);
  assert.deepEqual(after(shell, recorded("received"), aborted, recorded("started")), ["report aborted"]);
  assert.deepEqual(after(dangerous, recorded("received"), approved(), aborted, recorded("approved")), [
    "report aborted",
  ]);
  assert.deepEqual(after(aborted, shell, recorded("received")), ["report aborted"]);
});

test("C1, D3: a repeatable tool that may have run before the crash is unknown after an abort, not aborted", () => {
  assert.deepEqual(restartedAt("started", repeatable, [aborted, attached()]), [
    "stop_leftover",
    "report unknown",
  ]);
  const pending = restartedAt("started", repeatable, [attached(), aborted, recorded("started")]);
  assert.deepEqual(pending, ["stop_leftover", "record started", "report unknown"]);
});

test("C1: an exec has one result", () => {
  const [done] = run(tools.step, live, [shell, recorded("received"), recorded("started"), answered()]);
  assert.throws(() => tools.step(done, answered(4)), AssertionFailed);
});

test("C6: an exec is open until it has its result, and acknowledged only when that is", () => {
  const [running] = run(tools.step, live, [shell, recorded("received"), recorded("started")]);
  assert.equal(tools.hasOpen(running), true);
  const [done] = run(tools.step, running, [answered(3), acked(3)]);
  assert.equal(tools.hasOpen(done), false);
  assert.equal(done.entries.get("x1")?.phase, "done");
  assert.equal(tools.find(tools.step(done, acked(4))[0], "x1")?.phase, "acked");
});

test("C6: parallel tools do not forget each other's results", () => {
  const second: Requested = { ...shell, execId: "x2", eventId: 6 };
  const inputs = [shell, second, recorded("received"), recorded("received", 0, "x2"), recorded("started")];
  const [state, effects] = run(tools.step, live, [
    ...inputs,
    recorded("started", 0, "x2"),
    answered(3, "x2"),
  ]);
  assert.equal(effects.filter(({ kind }) => kind === "run").length, 2);
  assert.deepEqual(tools.execIdsInHand(state), ["x1"]);
  assert.equal(tools.find(tools.step(state, acked(4))[0], "x2")?.phase, "acked");
});

test("what was never requested cannot happen", () => {
  assert.throws(() => tools.step(live, answered()), AssertionFailed);
  assert.throws(() => tools.step(live, recorded("received")), AssertionFailed);
  const [asking] = run(tools.step, live, [dangerous, recorded("received")]);
  assert.throws(() => tools.step(asking, recorded("approved")), AssertionFailed);
  assert.throws(() => tools.step(asking, answered()), AssertionFailed);
});

test("a click that comes too late, for an exec nobody knows or nobody asks about, is harmless", () => {
  assert.deepEqual(through(approved(), denied), []);
  assert.deepEqual(after(shell, recorded("received"), denied), []);
  assert.deepEqual(after(shell, recorded("received"), recorded("started"), approved()), []);
});

test("D3: a client that wanted to abort before its crash starts nothing when it is back", () => {
  const { kind: _, ...known } = shell;
  const nothing = {
    approvedUntilMs: 0,
    hand: "empty",
    mayHaveRun: false,
    isAborted: false,
    resultSeqno: undefined,
  } as const;
  const wanting = tools.init([{ ...known, ...nothing, phase: "received" }], true);
  assert.deepEqual(wanted(tools.step(wanting, attached())[1]), ["report aborted"]);
});
