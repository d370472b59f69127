/**
 * One exec taken back by the server, in each of its phases: nothing begins any more, and it still has one outcome.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
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
const takenBack: tools.Input = { kind: "exec_aborted", execId: "x1" };
const approved: tools.Input = { kind: "approved", execId: "x1", argsHash: "h1", untilMs: 1_000 };
const denied: tools.Input = { kind: "denied", execId: "x1" };
const answered: tools.Input = { kind: "answered", execId: "x1", seqno: 3 };
const attached: tools.Input = { kind: "attached", sinceEvent: 0, nowMs: 0 };
const recorded = (phase: "received" | "approved" | "started"): tools.Input => {
  return { kind: "recorded", execId: "x1", phase, nowMs: 0 };
};

const [live] = run(tools.step, tools.init([], false), [attached]);

function wanted(effects: readonly tools.Effect[]): readonly string[] {
  return effects.map((effect) => (effect.kind === "report" ? `report ${effect.outcome}` : effect.kind));
}
const after = (...inputs: readonly tools.Input[]): readonly string[] =>
  wanted(last(tools.step, live, inputs)[1]);

const running = [shell, recorded("received"), recorded("started")];
const asking = [dangerous, recorded("received")];

test("C1: one that runs is stopped, and its own result is the outcome", () => {
  assert.deepEqual(after(...running, takenBack), ["record_abort", "cancel"]);
  assert.deepEqual(after(...running, takenBack, answered), []);
});

test("C1: one that waits for approval is answered at once; a late approval or denial changes nothing", () => {
  assert.deepEqual(after(...asking, takenBack), ["record_abort", "report aborted"]);
  assert.deepEqual(after(...asking, takenBack, approved), []);
  assert.deepEqual(after(...asking, takenBack, denied), []);
  assert.deepEqual(after(...asking, takenBack, answered, approved), []);
});

test("D3: an abort of the stream answers what waits for an approval; a client that lets go only closes the question", () => {
  const stopped: tools.Input = { kind: "aborted" };
  const letGo: tools.Input = { kind: "let_go" };
  assert.deepEqual(after(...asking, stopped), ["report aborted"]);
  assert.deepEqual(after(...asking, stopped, approved), []);
  assert.deepEqual(after(...asking, stopped, stopped), []);
  assert.deepEqual(after(...asking, stopped, letGo), []);
  assert.deepEqual(after(...asking, letGo), ["cancel"]);
  assert.deepEqual(after(...running, letGo), ["cancel"]);
});

test("C1: one whose record is being written is answered when the record is there, and does not run", () => {
  assert.deepEqual(after(shell, takenBack), ["record_abort"]);
  assert.deepEqual(after(shell, takenBack, recorded("received")), ["report aborted"]);
  const starting = [shell, recorded("received"), takenBack];
  assert.deepEqual(after(...starting, recorded("started")), ["report aborted"]);
  const approving = [...asking, approved, takenBack];
  assert.deepEqual(after(...approving, recorded("approved")), ["report aborted"]);
});

test("A8: taken back twice, after its result, or never asked for: nothing happens", () => {
  assert.deepEqual(after(takenBack), []);
  assert.deepEqual(after(...running, takenBack, takenBack), []);
  assert.deepEqual(after(...running, answered, takenBack), []);
  assert.deepEqual(after(...asking, denied, takenBack), []);
});

/** What a restarted client finds on disk, and does once it is attached. */
function restartedAt(phase: tools.Phase, request: Requested): readonly string[] {
  const { kind: _, ...known } = request;
  const nothing = {
    approvedUntilMs: 1_000,
    hand: "empty",
    mayHaveRun: false,
    resultSeqno: undefined,
  } as const;
  const entry: tools.Entry = { ...known, ...nothing, phase, isAborted: true };
  return wanted(run(tools.step, tools.init([entry], false), [attached])[1]);
}

test("C2: after a crash one that was taken back does not begin, and does not run again even if it is repeatable", () => {
  assert.deepEqual(restartedAt("received", shell), ["report aborted"]);
  assert.deepEqual(restartedAt("approved", dangerous), ["report aborted"]);
  assert.deepEqual(restartedAt("started", { ...shell, repeatable: true }), [
    "stop_leftover",
    "report unknown",
  ]);
});
