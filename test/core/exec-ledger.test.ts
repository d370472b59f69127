/**
 * The server's book of steps and execs.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/core/assert.ts";
import * as ledger from "../../src/core/exec-ledger.ts";
import { last, run } from "./run.ts";

const started = (eventId: number): ledger.Input => ({ kind: "step_started", eventId });
const restarted = (eventId: number): ledger.Input => ({ kind: "step_restarted", eventId });
const planned = (execId: string): ledger.Input => ({ kind: "exec_planned", execId });
const completed: ledger.Input = { kind: "step_completed" };
const issued = (execId: string, eventId: number): ledger.Input => ({ kind: "exec_issued", execId, eventId });
const result = (execId: string, seqno = 1): ledger.Input => ({ kind: "result", execId, seqno });
const takeover = (sinceEvent: number, sinceSeqno = 2): ledger.Input => {
  return { kind: "takeover", takeover: { sinceSeqno, sinceEvent } };
};
const recovered: ledger.Input = { kind: "recovered" };
const followed = (execId: string, before: string): ledger.Input => {
  return { kind: "exec_followed", execId, after: before };
};
const issuedAfter = (execId: string, eventId: number, before: string): ledger.Input => {
  return { kind: "exec_issued", execId, eventId, after: before };
};

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

const twoAsked = [started(1), planned("a"), planned("b"), completed, issued("a", 5), issued("b", 6)];

test("C0: execs are issued when the model's output of their step is complete, in its order", () => {
  assert.deepEqual(after(started(1), planned("a"), planned("b")), []);
  assert.deepEqual(after(started(1), planned("a"), planned("b"), completed), ["issue a", "issue b"]);
});

test("C0: an exec of a step that is not complete cannot be issued", () => {
  assert.throws(() => book(started(1), planned("a"), issued("a", 3)), AssertionFailed);
});

test("A8: only what was planned is issued, and once", () => {
  assert.throws(() => book(started(1), completed, issued("a", 3)), AssertionFailed);
  assert.throws(() => book(...twoAsked, issued("a", 7)), AssertionFailed);
});

test("A8: the first result is the outcome; a second one is ignored and counted", () => {
  assert.deepEqual(after(...twoAsked, result("a")), ["a answered"]);
  assert.deepEqual(after(...twoAsked, result("a"), result("a", 2)), []);
  assert.equal(book(...twoAsked, result("a"), result("a", 2)).ignored, 1);
});

test("A8: a result for what was never asked settles nothing", () => {
  assert.deepEqual(after(...twoAsked, result("never asked")), []);
});

test("A8: an exec id is minted once in a stream", () => {
  const answered = [...twoAsked, result("a"), result("b", 2)];
  assert.throws(() => book(started(1), planned("a"), planned("a")), AssertionFailed);
  assert.throws(() => book(...answered, started(9), planned("a")), AssertionFailed);
  assert.throws(() => book(planned("a")), AssertionFailed);
});

test("the next step begins when every exec has its outcome", () => {
  assert.equal(ledger.isReadyForStep(book()), true);
  assert.equal(ledger.isReadyForStep(book(started(1))), false);
  assert.equal(ledger.isReadyForStep(book(started(1), planned("a"), completed)), false);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, result("a"))), false);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, result("a"), result("b", 2))), true);
  assert.throws(() => book(...twoAsked, started(9)), AssertionFailed);
});

test("D2: a takeover makes every unanswered exec from before it unknown, and nothing else", () => {
  assert.deepEqual(after(...twoAsked, result("a"), takeover(9)), ["b unknown"]);
  assert.deepEqual(after(...twoAsked, takeover(5)), ["a unknown"]);
  assert.deepEqual(after(started(1), planned("a"), completed, takeover(9)), []);
});

test("D2: an exec issued after a takeover is the new writer's to answer", () => {
  const asked = [started(1), planned("a"), completed, takeover(3), issued("a", 4)];
  assert.deepEqual(after(...asked), []);
  assert.deepEqual(after(...asked, result("a", 7)), ["a answered"]);
});

test("C1: the late result of an exec that became unknown changes nothing", () => {
  assert.deepEqual(after(...twoAsked, takeover(9), result("a", 5)), []);
  assert.equal(ledger.isReadyForStep(book(...twoAsked, takeover(9))), true);
});

test("a restarted host issues what was planned and not yet asked, and asks nothing twice", () => {
  assert.deepEqual(after(...twoAsked.slice(0, -1), recovered), ["issue b"]);
  assert.deepEqual(after(...twoAsked, recovered), []);
});

test("C0: a restarted host restarts the step that was cut off, from where it began", () => {
  assert.deepEqual(after(started(7), recovered), ["restart from 7"]);
  assert.deepEqual(after(started(7), restarted(9), recovered), ["restart from 9"]);
  assert.equal(book(started(7), restarted(9)).steps, 1);
});

test("C0: a restarted step plans anew: what was planned before is rolled back and never issued", () => {
  const again = [started(1), planned("a"), restarted(3), planned("b")];
  assert.deepEqual(after(...again, completed), ["issue b"]);
  assert.deepEqual(after(started(1), planned("a"), restarted(3), recovered), ["restart from 3"]);
});

test("C0: a step that is complete never calls the model again", () => {
  assert.deepEqual(after(started(7), completed, recovered), []);
  assert.throws(() => book(started(7), completed, restarted(9)), AssertionFailed);
  assert.throws(() => book(completed), AssertionFailed);
});

test("F1: a step restarts three times, then the turn fails", () => {
  const restarts = [restarted(8), restarted(9), restarted(10)];
  assert.deepEqual(after(started(7), ...restarts.slice(0, 2), recovered), ["restart from 9"]);
  assert.deepEqual(after(started(7), ...restarts, recovered), ["fail_turn"]);
});

test("F1: a step that its provider breaks off restarts as one that a crash cut off, and no more often", () => {
  const broken: ledger.Input = { kind: "step_broken" };
  assert.deepEqual(after(started(7), planned("a"), broken), ["restart from 7"]);
  assert.deepEqual(after(started(7), restarted(8), broken), ["restart from 8"]);
  assert.deepEqual(after(started(7), restarted(8), restarted(9), restarted(10), broken), ["fail_turn"]);
  assert.throws(() => book(started(7), completed, broken), AssertionFailed);
});

test("F1: the restarts of one step do not count against the next", () => {
  const first = [started(1), restarted(2), restarted(3), restarted(4), completed];
  assert.deepEqual(after(...first, started(6), recovered), ["restart from 6"]);
});

const readFirst = [started(1), planned("read"), completed, issued("read", 4)];

test("an exec may follow another one of its tool call, once that has its outcome", () => {
  assert.deepEqual(after(...readFirst, result("read"), followed("write", "read")), ["issue write"]);
  assert.deepEqual(after(...readFirst, takeover(9), followed("write", "read")), ["issue write"]);
  assert.throws(() => book(...readFirst, followed("write", "read")), AssertionFailed);
  assert.throws(
    () => book(...readFirst, result("read"), followed("write", "never planned")),
    AssertionFailed,
  );
});

test("the next step waits for an exec that follows", () => {
  const writing = [...readFirst, result("read"), followed("write", "read")];
  assert.equal(ledger.isReadyForStep(book(...writing)), false);
  assert.equal(ledger.isReadyForStep(book(...writing, issued("write", 6))), false);
  assert.equal(ledger.isReadyForStep(book(...writing, issued("write", 6), result("write", 2))), true);
});

test("A8: an exec that follows and is in the log already is not asked again", () => {
  const inTheLog = [...readFirst, result("read"), issuedAfter("write", 6, "read")];
  assert.deepEqual(after(...inTheLog, recovered), []);
  assert.deepEqual(after(...inTheLog, recovered, followed("write", "read")), []);
  assert.deepEqual(after(...inTheLog, recovered, followed("write", "read"), result("write", 2)), [
    "write answered",
  ]);
  assert.throws(() => book(...readFirst, issuedAfter("write", 6, "never planned")), AssertionFailed);
  assert.throws(() => book(...inTheLog, issuedAfter("write", 7, "read")), AssertionFailed);
});

test("an exec that follows reads back the same, whichever log comes first", () => {
  const events = [...readFirst, issuedAfter("write", 6, "read")];
  const chunks = [result("read", 1), result("write", 2)];
  const lived = book(
    ...readFirst,
    result("read", 1),
    followed("write", "read"),
    issued("write", 6),
    result("write", 2),
  );
  for (const again of [book(...events, ...chunks), book(...chunks, ...events)]) {
    assert.deepEqual([again.steps, again.open, again.execs], [lived.steps, lived.open, lived.execs]);
  }
});

test("C1: what a client has not answered when it closes stays unknown, asked before or after", () => {
  const closed: ledger.Input = { kind: "closed", seqno: 2 };
  assert.deepEqual(after(...twoAsked, result("a", 1), closed), ["b unknown"]);
  assert.deepEqual(after(...twoAsked.slice(0, -1), closed, issued("b", 6)), ["b unknown"]);
  assert.deepEqual(after(started(1), planned("a"), completed, result("a", 1), closed, issued("a", 5)), [
    "a answered",
  ]);
});

test("F2: a client that invents exec ids does not grow the book; the execs there are still answered", () => {
  let state = book(...twoAsked);
  for (let at = 0; at < ledger.UNKNOWN_RESULTS_MAX + 10; at++) {
    [state] = ledger.step(state, result(`invented ${String(at)}`, at));
  }
  assert.equal(state.results.size, ledger.UNKNOWN_RESULTS_MAX);
  assert.equal(state.ignored, 10);
  assert.deepEqual(wanted(ledger.step(state, result("a", 9_000))[1]), ["a answered"]);
});

test("A8, D2: a host that reads the logs back, chunks and takeovers first, finds the book of the one that lived it", () => {
  const happening = fc.constantFrom("step", "result", "second result", "takeover");
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 30 }), (happenings) => {
      let live = ledger.init();
      let eventId = 0;
      let seqno = 1;
      const events: ledger.Input[] = [];
      const chunks: ledger.Input[] = [];
      const takeovers: ledger.Input[] = [];
      const feed = (log: ledger.Input[], input: ledger.Input): void => {
        log.push(input);
        [live] = ledger.step(live, input);
      };
      for (const what of happenings) {
        const execs = [...live.execs];
        const open = execs.find(([, { stage }]) => stage === "issued");
        if (what === "step" && ledger.isReadyForStep(live)) {
          const ids = [`x${String(eventId)}`, `y${String(eventId)}`];
          feed(events, started(++eventId));
          for (const id of ids) feed(events, planned(id));
          eventId += 3;
          feed(events, completed);
          for (const id of ids) feed(events, issued(id, ++eventId));
        }
        if (what === "result" && open !== undefined) feed(chunks, result(open[0], seqno++));
        if (what === "second result" && execs[0] !== undefined) feed(chunks, result(execs[0][0], seqno++));
        if (what === "takeover") feed(takeovers, takeover(eventId, seqno));
      }
      const again = book(...chunks, ...takeovers, ...events);
      assert.deepEqual([again.steps, again.open, again.execs], [live.steps, live.open, live.execs]);
      assert.equal(again.ignored, live.ignored);
    }),
    { numRuns: 300 },
  );
});
