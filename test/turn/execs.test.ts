/**
 * The book of a turn's execs.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import {
  answerExec,
  closeBook,
  type ExecBook,
  issueExec,
  newExecBook,
  planExec,
  rollBackPlans,
  takeOver,
  UNKNOWN_RESULTS_MAX,
} from "../../src/turn/execs.ts";

type Happening = (book: ExecBook) => void;

const planned =
  (execId: string): Happening =>
  (book) =>
    planExec(book, execId);
const issued = (execId: string, eventId: number, after?: string): Happening => {
  return (book) => issueExec(book, execId, eventId, after);
};
const result =
  (execId: string, seqno = 1): Happening =>
  (book) =>
    void answerExec(book, execId, seqno);
const takeover = (sinceEvent: number, sinceSeqno = 2): Happening => {
  return (book) => takeOver(book, { sinceEvent, sinceSeqno });
};

function bookOf(...happenings: readonly Happening[]): ExecBook {
  const book = newExecBook();
  for (const happening of happenings) happening(book);
  return book;
}

function stages(...happenings: readonly Happening[]): readonly string[] {
  return [...bookOf(...happenings).execs].map(([execId, { stage }]) => `${execId} ${stage}`);
}

const twoAsked = [planned("a"), planned("b"), issued("a", 5), issued("b", 6)];

test("A8: only what was planned is issued, and once", () => {
  assert.throws(() => bookOf(issued("a", 3)), AssertionFailed);
  assert.throws(() => bookOf(...twoAsked, issued("a", 7)), AssertionFailed);
});

test("A8: the first result is the outcome; a second one is ignored and counted", () => {
  assert.deepEqual(stages(...twoAsked, result("a")), ["a answered", "b issued"]);
  const book = bookOf(...twoAsked);
  assert.equal(answerExec(book, "a", 1), true);
  assert.equal(answerExec(book, "a", 2), false);
  assert.equal(book.ignored, 1);
});

test("A8: a result for what was never asked settles nothing", () => {
  assert.deepEqual(stages(...twoAsked, result("never asked")), ["a issued", "b issued"]);
});

test("A8: an exec id is minted once in a stream", () => {
  assert.throws(() => bookOf(planned("a"), planned("a")), AssertionFailed);
  assert.throws(() => bookOf(...twoAsked, result("a"), result("b", 2), planned("a")), AssertionFailed);
});

test("an exec is pending until it has its outcome", () => {
  const pending = (...happenings: readonly Happening[]): number => bookOf(...happenings).pending.size;
  assert.equal(pending(), 0);
  assert.equal(pending(planned("a")), 1);
  assert.equal(pending(...twoAsked, result("a")), 1);
  assert.equal(pending(...twoAsked, result("a"), result("b", 2)), 0);
});

test("D2: a takeover makes every unanswered exec from before it unknown, and nothing else", () => {
  assert.deepEqual(stages(...twoAsked, result("a"), takeover(9)), ["a answered", "b unknown"]);
  assert.deepEqual(stages(...twoAsked, takeover(5)), ["a unknown", "b issued"]);
  assert.deepEqual(stages(planned("a"), takeover(9)), ["a planned"]);
});

test("D2: an exec issued after a takeover is the new writer's to answer", () => {
  const asked = [planned("a"), takeover(3), issued("a", 4)];
  assert.deepEqual(stages(...asked), ["a issued"]);
  assert.deepEqual(stages(...asked, result("a", 7)), ["a answered"]);
});

test("C1: the late result of an exec that became unknown changes nothing", () => {
  assert.deepEqual(stages(...twoAsked, takeover(9), result("a", 5)), ["a unknown", "b unknown"]);
  assert.equal(bookOf(...twoAsked, takeover(9)).pending.size, 0);
});

test("C1: a result that overtook its exec and came behind a takeover is late, and counted", () => {
  const book = bookOf(planned("a"), result("a", 5), takeover(9), issued("a", 4));
  assert.deepEqual([book.execs.get("a")?.stage, book.ignored], ["unknown", 1]);
});

test("C0: a restarted step plans anew: what was planned before is rolled back and never issued", () => {
  assert.deepEqual(stages(planned("a"), rollBackPlans, planned("b")), ["b planned"]);
  assert.throws(() => bookOf(planned("a"), rollBackPlans, issued("a", 3)), AssertionFailed);
  assert.deepEqual(stages(...twoAsked, rollBackPlans), ["a issued", "b issued"]);
});

const readFirst = [planned("read"), issued("read", 4)];

test("an exec may follow another one of its tool call", () => {
  assert.deepEqual(stages(...readFirst, result("read"), issued("write", 6, "read")), [
    "read answered",
    "write issued",
  ]);
  assert.throws(() => bookOf(...readFirst, issued("write", 6, "never planned")), AssertionFailed);
  assert.throws(
    () => bookOf(...readFirst, issued("write", 6, "read"), issued("write", 7, "read")),
    AssertionFailed,
  );
});

test("an exec that follows reads back the same, whichever log comes first", () => {
  const events = [...readFirst, issued("write", 6, "read")];
  const chunks = [result("read", 1), result("write", 2)];
  const lived = bookOf(...readFirst, result("read", 1), issued("write", 6, "read"), result("write", 2));
  for (const again of [bookOf(...events, ...chunks), bookOf(...chunks, ...events)]) {
    assert.deepEqual(again.execs, lived.execs);
    assert.equal(again.unmatched, 0);
  }
});

test("C1: what a client has not answered when it closes stays unknown, asked before or after", () => {
  const closed: Happening = (book) => closeBook(book, 2);
  assert.deepEqual(stages(...twoAsked, result("a", 1), closed), ["a answered", "b unknown"]);
  assert.deepEqual(stages(planned("b"), closed, issued("b", 6)), ["b unknown"]);
  assert.deepEqual(stages(planned("a"), result("a", 1), closed, issued("a", 5)), ["a answered"]);
});

test("F2: a client that invents exec ids does not grow the book; the execs there are still answered", () => {
  const book = bookOf(...twoAsked);
  for (let at = 0; at < UNKNOWN_RESULTS_MAX + 10; at++) answerExec(book, `invented ${String(at)}`, at);
  assert.equal(book.results.size, UNKNOWN_RESULTS_MAX);
  assert.equal(book.ignored, 10);
  answerExec(book, "a", 9_000);
  assert.equal(book.execs.get("a")?.stage, "answered");
  // What is rolled back is no longer in the book, but its result counts as one that no exec has.
  const rolled = bookOf(planned("a"), result("a"), rollBackPlans);
  assert.equal(rolled.unmatched, 1);
});

test("A8, D2: a host that reads the logs back, chunks and takeovers first, finds the book of the one that lived it", () => {
  const happening = fc.constantFrom("step", "result", "second result", "takeover");
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 30 }), (happenings) => {
      const live = newExecBook();
      let eventId = 0;
      let seqno = 1;
      const logs: Record<"events" | "chunks" | "takeovers", Happening[]> = {
        events: [],
        chunks: [],
        takeovers: [],
      };
      const feed = (log: keyof typeof logs, one: Happening): void => {
        logs[log].push(one);
        one(live);
      };
      for (const what of happenings) {
        const open = [...live.execs].find(([, { stage }]) => stage === "issued");
        const [first] = live.execs.keys();
        if (what === "step" && live.pending.size === 0) {
          const ids = [`x${String(eventId)}`, `y${String(eventId)}`];
          eventId += 4;
          for (const id of ids) feed("events", planned(id));
          for (const id of ids) feed("events", issued(id, ++eventId));
        }
        if (what === "result" && open !== undefined) feed("chunks", result(open[0], seqno++));
        if (what === "second result" && first !== undefined) feed("chunks", result(first, seqno++));
        if (what === "takeover") feed("takeovers", takeover(eventId, seqno));
      }
      const again = bookOf(...logs.chunks, ...logs.takeovers, ...logs.events);
      assert.deepEqual([again.execs, again.pending, again.issued], [live.execs, live.pending, live.issued]);
      assert.equal(again.ignored, live.ignored);
    }),
    { numRuns: 300 },
  );
});
