/**
 * Steps that begin anew, as seen by a reader that is there, one that comes later, and one that comes back.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { type AnswerDelta, AnswerCollector, endError, projectRange } from "../../src/gateway/openai/index.ts";
import { type AgentServerMessage, FinishReason, TurnEndReason } from "../../src/protocol/messages.ts";
import {
  called,
  completed,
  exec,
  eventsOf,
  kindsOf,
  live,
  restarted,
  started,
  text,
  thinking,
  turnEnded,
  wordsOf,
} from "./turn-script.ts";

const end = [completed(0, FinishReason.STOP), turnEnded()];

/** One attempt is cut off, the other goes through. */
const attempts = (first: readonly AgentServerMessage[], second: readonly AgentServerMessage[]) =>
  eventsOf([started(0), ...first, restarted(0, 1), ...second, ...end]);

test("a reader that is there is not told again what it has", () => {
  const deltas = live(
    attempts(
      [thinking("hm"), text("Hello wo")],
      [thinking("h"), thinking("m"), text("Hello"), text(" world")],
    ),
  );
  assert.deepEqual(kindsOf(deltas), ["reasoning", "text", "restarted", "text", "ended"]);
  assert.equal(wordsOf(deltas), "Hello world");
  assert.equal(wordsOf(deltas, "reasoning"), "hm");
});

test("thoughts are not compared: those of a new attempt follow the old ones, and the answer has only the new", () => {
  const deltas = live(attempts([thinking("hm")], [thinking("well"), thinking(", so"), text("Hello")]));
  assert.deepEqual(kindsOf(deltas), ["reasoning", "restarted", "reasoning", "reasoning", "text", "ended"]);
  assert.equal(wordsOf(deltas, "reasoning"), "hm\n\nwell, so");
  const last = deltas.at(-1);
  assert.deepEqual(last?.kind === "ended" ? last.said : undefined, { text: "Hello", reasoning: "well, so" });
});

test("at the first difference the reader is shown no more, and the answer goes on to its end", () => {
  const deltas = live(attempts([text("Hello wo")], [text("Hello y"), text("ou")]));
  assert.deepEqual(kindsOf(deltas), ["text", "restarted", "diverged", "ended"]);
  assert.equal(endError(deltas[2] ?? assert.fail())?.isRetryable, true);
  assert.equal(saidIn(deltas), "Hello you");
});

test("a reader is lost once, whatever follows; the pause comes for the session", () => {
  const events = eventsOf([
    started(0),
    text("Hello wo"),
    restarted(0, 1),
    text("Bye"),
    restarted(0, 1),
    text("By"),
    called("p1", ["a"]),
    completed(0, FinishReason.TOOL_CALLS),
    exec(1, "a", "p1"),
    started(1),
    text("Next"),
  ]);
  const deltas = live(events);
  assert.deepEqual(kindsOf(deltas), ["text", "restarted", "diverged", "restarted", "calls", "text"]);
  const pause = deltas[4];
  assert.ok(pause?.kind === "calls");
  assert.equal(pause.said.text, "By");
  assert.equal(wordsOf(deltas.slice(5)), "Next");
});

test("a shorter text is a difference as well", () => {
  assert.deepEqual(kindsOf(live(attempts([text("Hello wo")], [text("Hello")]))), [
    "text",
    "restarted",
    "diverged",
    "ended",
  ]);
});

test("a reader that comes later gets only what counts", () => {
  const events = attempts([text("Hello wo")], [text("Good"), text("bye")]);
  const { deltas, state } = projectRange(events);
  assert.deepEqual(kindsOf(deltas), ["restarted", "text", "text", "ended"]);
  assert.equal(wordsOf(deltas), "Goodbye");
  assert.equal(state.isOver, true);
});

test("a reader that comes back within the attempt that was given up is told the difference", () => {
  const events = attempts([text("Hel"), text("lo wo")], [text("Hello world")]);
  assert.equal(wordsOf(projectRange(events, { seenThrough: 2 }).deltas), "lo world");
  assert.equal(wordsOf(projectRange(events, { seenThrough: 3 }).deltas), "rld");
  const other = attempts([text("Hel"), text("lo")], [text("Goodbye")]);
  assert.deepEqual(kindsOf(projectRange(other, { seenThrough: 2 }).deltas), [
    "restarted",
    "diverged",
    "ended",
  ]);
});

test("G1: an answer that is stopped before a new attempt has said its words again still has the words that were shown", () => {
  const stopped = turnEnded({ reason: TurnEndReason.ABORTED });
  for (const again of [[], [text("Hel")]]) {
    const deltas = live(eventsOf([started(0), text("Hello wo"), restarted(0, 1), ...again, stopped]));
    assert.equal(wordsOf(deltas), "Hello wo");
    assert.equal(saidIn(deltas), "Hello wo");
  }
});

test("an answer that is collected has the words that count", () => {
  const collector = new AnswerCollector();
  for (const delta of live(attempts([text("Hello wo")], [text("Goodbye")]))) collector.add(delta);
  const { choices } = collector.completion({ id: "x", createdS: 1, model: "m" });
  assert.equal(choices[0].message.content, "Goodbye");
});

/** Steps of a turn; each with attempts that were cut off and one that went through, all beginnings of one text. */
const turns = fc.array(
  fc.record({
    words: fc.array(fc.string({ minLength: 1, maxLength: 4 }), { maxLength: 5 }),
    cuts: fc.array(fc.nat({ max: 5 }), { maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 3 },
);

interface Step {
  readonly words: readonly string[];
  readonly cuts: readonly number[];
}

function turnOf(steps: readonly Step[]) {
  const messages: AgentServerMessage[] = [];
  for (const [step, { words, cuts }] of steps.entries()) {
    messages.push(started(step));
    const begin = messages.length;
    for (const cut of cuts) messages.push(...words.slice(0, cut).map(text), restarted(step, begin));
    // The attempt that goes through says the same in other pieces.
    const whole = words.join("");
    const middle = Math.floor(whole.length / 2);
    messages.push(
      text(whole.slice(0, middle)),
      text(whole.slice(middle)),
      completed(step, FinishReason.STOP),
    );
  }
  messages.push(turnEnded());
  return eventsOf(messages);
}

function saidIn(deltas: readonly AnswerDelta[]): string {
  const last = deltas.at(-1);
  assert.ok(last?.kind === "ended");
  return last.said.text;
}

test("a range that is projected in two parts is what it is in one", () => {
  fc.assert(
    fc.property(turns, fc.nat(), fc.nat(), (steps, cut, seen) => {
      const events = turnOf(steps);
      const [count, seenThrough] = [cut % events.length, seen % events.length];
      for (const wanted of [{ seenThrough }, { seenThrough, givenAfter: 0 }]) {
        const begun = projectRange(events.slice(0, count), wanted);
        assert.deepEqual(projectRange(events, { ...wanted, begun }), projectRange(events, wanted));
      }
    }),
  );
});

test("live, later, collected or coming back after any event: everybody ends with the same text", () => {
  fc.assert(
    fc.property(turns, (steps) => {
      const events = turnOf(steps);
      const shown = live(events);
      const whole = saidIn(shown);
      assert.equal(wordsOf(shown), whole);
      const later = projectRange(events).deltas;
      assert.equal(wordsOf(later), whole);
      const collector = new AnswerCollector();
      for (const delta of live(events)) collector.add(delta);
      assert.equal(
        collector.completion({ id: "", createdS: 0, model: "" }).choices[0].message.content,
        whole,
      );
      for (const reader of [shown, later]) {
        for (const { eventId } of reader.filter(({ kind }) => kind === "text")) {
          const before = reader.filter((delta) => delta.eventId <= eventId);
          const after = projectRange(events, { seenThrough: eventId }).deltas;
          assert.equal(wordsOf(before) + wordsOf(after), whole);
          assert.equal(kindsOf(after).includes("diverged"), false);
        }
      }
    }),
  );
});
