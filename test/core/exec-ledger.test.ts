/**
 * The server's book of steps and execs.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/core/assert.ts";
import * as ledger from "../../src/core/exec-ledger.ts";
import { last, run } from "./run.ts";

const started = (eventId: number): ledger.Input => ({ kind: "step_started", eventId });
const restarted = (eventId: number): ledger.Input => ({ kind: "step_restarted", eventId });
const completed = (...execIds: readonly string[]): ledger.Input => ({ kind: "step_completed", execIds });
const issued = (execId: string, eventId: number): ledger.Input => ({ kind: "exec_issued", execId, eventId });
const result = (execId: string): ledger.Input => ({ kind: "result", execId });
const takeover = (sinceEvent: number): ledger.Input => ({ kind: "takeover", sinceEvent });
const recovered: ledger.Input = { kind: "recovered" };

function wanted(effects: readonly ledger.Effect[]): readonly string[] {
  return effects.map((effect) => {
    if (effect.kind === "issue") return `issue ${effect.execId}`;
    if (effect.kind === "settled") return `${effect.execId} ${effect.outcome}`;
    return effect.kind === "restart_step" ? `restart from ${String(effect.rollbackTo)}` : effect.kind;
  });
}
const after = (...inputs: readonly ledger.Input[]): readonly string[] =>
  wanted(last(ledger.step, ledger.init(), inputs)[1]);
const book = (...inputs: readonly ledger.Input[]): ledger.State => run(ledger.step, ledger.init(), inputs)[0];

const twoAsked = [started(1), completed("a", "b"), issued("a", 4), issued("b", 5)];

test("C0: execs are issued when the model's output of their step is complete, in its order", () => {
  assert.deepEqual(after(started(1)), []);
  assert.deepEqual(after(started(1), completed("a", "b")), ["issue a", "issue b"]);
});

test("C0: an exec of a step that is not complete cannot be issued, and none twice", () => {
  assert.throws(() => book(started(1), issued("a", 2)), AssertionFailed);
  assert.throws(() => book(...twoAsked, issued("a", 6)), AssertionFailed);
});

test("A8: the first result is the outcome; a second one and one for nothing are ignored and counted", () => {
  assert.deepEqual(after(...twoAsked, result("a")), ["a answered"]);
  assert.deepEqual(after(...twoAsked, result("a"), result("a")), []);
  assert.equal(book(...twoAsked, result("a"), result("a"), result("never asked")).ignored, 2);
});

test("A8: an exec id is minted once in a stream", () => {
  assert.throws(
    () => book(...twoAsked, result("a"), result("b"), started(6), completed("a")),
    AssertionFailed,
  );
});

test("the next step begins when every exec has its outcome", () => {
  assert.equal(ledger.isReadyForStep(book()), true);
  assert.equal(ledger.isReadyForStep(book(started(1))), false);
  assert.equal(ledger.isReadyForStep(book(started(1), completed("a"))), false);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, result("a"))), false);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, result("a"), result("b"))), true);
  assert.throws(() => book(...twoAsked, started(9)), AssertionFailed);
});

test("D2: a takeover makes every unanswered exec from before it unknown, and nothing else", () => {
  assert.deepEqual(after(...twoAsked, result("a"), takeover(9)), ["b unknown"]);
  assert.deepEqual(after(...twoAsked, takeover(4)), ["a unknown"]);
  assert.deepEqual(after(started(1), completed("a"), takeover(9)), []);
});

test("C1: the late result of an exec that became unknown changes nothing", () => {
  assert.deepEqual(after(...twoAsked, takeover(9), result("a")), []);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, takeover(9))), true);
});

test("a restarted host issues what was planned and not yet asked, and asks nothing twice", () => {
  assert.deepEqual(after(started(1), completed("a", "b"), issued("a", 4), recovered), ["issue b"]);
  assert.deepEqual(after(...twoAsked, recovered), []);
});

test("C0: a restarted host restarts the step that was cut off, from where it began", () => {
  assert.deepEqual(after(started(7), recovered), ["restart from 7"]);
  assert.deepEqual(after(started(7), restarted(9), recovered), ["restart from 9"]);
  assert.equal(book(started(7), restarted(9)).steps, 1);
});

test("C0: a step that is complete never calls the model again", () => {
  assert.deepEqual(after(started(7), completed(), recovered), []);
  assert.throws(() => book(started(7), completed(), restarted(9)), AssertionFailed);
  assert.throws(() => book(completed()), AssertionFailed);
});

test("F1: a step restarts three times, then the turn fails", () => {
  const restarts = [restarted(8), restarted(9), restarted(10)];
  assert.deepEqual(after(started(7), ...restarts.slice(0, 2), recovered), ["restart from 9"]);
  assert.deepEqual(after(started(7), ...restarts, recovered), ["fail_turn"]);
});

test("F1: the restarts of one step do not count against the next", () => {
  const first = [started(1), restarted(2), restarted(3), restarted(4), completed()];
  assert.deepEqual(after(...first, started(6), recovered), ["restart from 6"]);
});
