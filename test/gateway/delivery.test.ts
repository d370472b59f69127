/** The rules by which an equal request is a retry, or is not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  afterRestart,
  choose,
  type Delivery,
  type EarlierAnswer,
  step,
  together,
} from "../../src/gateway/delivery.ts";

const answer = (delivery: Delivery | undefined, more: Partial<EarlierAnswer> = {}): EarlierAnswer => ({
  delivery,
  isRetried: false,
  isKeyed: false,
  isContinued: false,
  ...more,
});
const COUNTED = { retrySign: "counted" } as const;
const REPEATED = { retrySign: "repeated" } as const;
const UNSAID = { retrySign: "none" } as const;

test("a response is lost when it breaks, and when its connection is reset behind its end; closed in good order it is not", () => {
  assert.equal(step("open", "broken"), "lost");
  assert.equal(step("open", "whole"), "flushed");
  for (const arrival of ["confirmed", "closed", "lost"] as const) {
    assert.equal(step("flushed", arrival), arrival);
    assert.equal(step("open", arrival), "open", "it cannot have arrived before it left");
    for (const later of ["whole", "broken", "confirmed", "closed", "lost"] as const) {
      assert.equal(step(arrival, later), arrival, "the first word is the last");
    }
  }
});

test("of several responses that tell an answer, one that arrived is enough, and one that is open leaves it undecided", () => {
  assert.equal(together([]), undefined);
  assert.equal(together(["lost", "closed"]), "closed");
  assert.equal(together(["closed", "confirmed", "flushed"]), "confirmed");
  assert.equal(together(["lost", "flushed"]), "flushed");
  assert.equal(together(["confirmed", "open"]), "open");
  assert.equal(together(["lost", "lost"]), "lost");
});

test("after a restart what was open is lost, and what was flushed has arrived", () => {
  assert.deepEqual((["open", "flushed", "lost"] as const).map(afterRestart), ["lost", "closed", "lost"]);
});

test("an equal request takes the oldest answer that was lost, and nothing else", () => {
  const [first, second] = [answer("lost"), answer("lost", { isRetried: true })];
  const others = (["open", "flushed", "closed", "confirmed", undefined] as const).map((each) => answer(each));
  assert.deepEqual(choose([...others, first, second], UNSAID), { kind: "take", answer: first });
  assert.deepEqual(choose([...others, second], UNSAID), { kind: "take", answer: second });
  assert.deepEqual(choose(others, UNSAID), { kind: "new" });
  assert.deepEqual(choose([], COUNTED), { kind: "new" });
});

test("one that says that it is a retry takes what may have been lost, when only one answer can be meant, once", () => {
  for (const delivery of ["open", "flushed", "closed"] as const) {
    const only = answer(delivery);
    assert.deepEqual(choose([answer("confirmed"), only], COUNTED), { kind: "take", answer: only });
    assert.deepEqual(choose([only, answer("closed")], COUNTED), { kind: "new" });
    assert.deepEqual(choose([answer(delivery, { isRetried: true })], COUNTED), { kind: "new" });
  }
  assert.deepEqual(choose([answer("confirmed")], COUNTED), { kind: "new" });
});

test("one that repeats itself in a session that its client names takes what was handed over and not confirmed, and nothing that is being read", () => {
  for (const delivery of ["flushed", "closed"] as const) {
    const only = answer(delivery);
    assert.deepEqual(choose([answer("open"), answer("confirmed"), only], REPEATED), {
      kind: "take",
      answer: only,
    });
    assert.deepEqual(choose([only, answer("closed")], REPEATED), { kind: "new" });
    assert.deepEqual(choose([answer(delivery, { isRetried: true })], REPEATED), { kind: "new" });
  }
  for (const delivery of ["open", "confirmed"] as const) {
    assert.deepEqual(choose([answer(delivery)], REPEATED), { kind: "new" });
  }
});

test("an answer under an Idempotency-Key is its key's alone", () => {
  assert.deepEqual(choose([answer("lost", { isKeyed: true })], COUNTED), { kind: "new" });
});

test("equal tool results at once are joined; when the answer has been told they are a new request", () => {
  const open = answer("open", { isContinued: true });
  assert.deepEqual(choose([open], UNSAID), { kind: "join", answer: open });
  assert.deepEqual(choose([answer("flushed", { isContinued: true })], UNSAID), { kind: "new" });
});
