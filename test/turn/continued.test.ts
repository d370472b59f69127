/**
 * What follows when a step's output is cut off: the same generation, the same text by the same model, or the step anew.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Prefills } from "../../src/turn/found.ts";
import { broke, type Request, TurnOfFacts, wanted } from "./turn-of-facts.ts";

/** A turn whose model's calls may be held by another process. */
function holding(isFinal = false): TurnOfFacts {
  const turn = TurnOfFacts.asked({ options: { shownIsFinal: isFinal } });
  const { opened } = turn.facts.found;
  assert.ok(opened !== undefined);
  turn.facts.found.opened = { ...opened, holdsCalls: true };
  return turn;
}

test("G6: the call of a step that a crash cut off is looked for; when it is lost the step begins anew", () => {
  for (const isFinal of [false, true]) {
    const turn = holding(isFinal);
    turn.started(7);
    turn.update({ case: "textDelta", value: { text: "so" } });
    assert.equal(wanted(turn), "attach to step 0, attempt 0");
    turn.facts.found.isLost = true;
    const decision = turn.next();
    assert.ok(decision.kind === "call_model");
    assert.deepEqual(decision.place.begin, { how: "restart", rollbackTo: 7, restart: 1 });
    turn.restarted(9);
    assert.equal(turn.facts.found.isLost, false);
    assert.equal(wanted(turn), "attach to step 0, attempt 1", "the new attempt has a call of its own");
  }
});

test("G2: looking for a held call sends nothing: what the attempt may have sent is said once, and stays", () => {
  const turn = holding();
  turn.started(7);
  for (let restart = 0; restart < 8; restart++) {
    const decision = turn.next();
    assert.ok(decision.kind === "call_model" && decision.place.begin.how === "attach");
    const { requestsBefore: requests } = decision.place;
    assert.equal(requests, 3);
    turn.update({ case: "stepRequested", value: { step: 0, requests } });
  }
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 1", "it may be what takes the server down");
  turn.update({ case: "textDelta", value: { text: "more" } });
  assert.equal(wanted(turn), "attach to step 0, attempt 0", "it has said more since");
});

test("F1: a held call that was refused while no server was there is made again; one that broke in its text broke", () => {
  const turn = holding(true);
  turn.started(7);
  broke(turn, { wasHeld: true });
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 1");
  turn.update({ case: "textDelta", value: { text: "so" } });
  assert.equal(wanted(turn), "fail: the provider broke off");
});

const TEXT = "The wind is north by east";

/** A turn whose model may continue a text, with this much said. */
function writing(prefills: Prefills, options: NonNullable<Request["options"]> = {}): TurnOfFacts {
  const turn = TurnOfFacts.asked({ options: { shownIsFinal: true, ...options } });
  turn.facts.found.ways = { continues: "exact", prefills };
  turn.started(7);
  turn.update({ case: "textDelta", value: { text: TEXT } }, 9);
  return turn;
}

function continued(turn: TurnOfFacts, continuation: number, isUnproved = false): void {
  const value = { step: 0, rollbackToEventId: "9", continuation, requestsBefore: 2, isUnproved };
  turn.update({ case: "stepContinued", value });
}

test("G1: text is continued by the model that said it, and what was said behind it is not counted", () => {
  const turn = writing("untried");
  turn.update({ case: "thinkingDelta", value: { text: "hm" } }, 10);
  turn.planned("a");
  broke(turn);
  assert.equal(wanted(turn), "continue step 0 behind 9, attempt 1, continuation 1");
  continued(turn, 1);
  turn.planned("b");
  turn.completed("x");
  assert.equal(wanted(turn), "issue b", "the call is made anew");
});

test("G1: text with a thought in it is continued: only a call in it cannot be told as the beginning of an answer", () => {
  const turn = writing("untried");
  turn.update({ case: "thinkingDelta", value: { text: "hm" } }, 10);
  turn.update({ case: "textDelta", value: { text: " and more" } }, 11);
  broke(turn);
  assert.equal(wanted(turn), "continue step 0 behind 11, attempt 1, continuation 1");
});

test("G1: what cannot be continued is an error where it was shown for good, and begins anew elsewhere", () => {
  for (const [make, what] of [
    [() => writing("no"), "the model cannot"],
    [() => writing("proved", { responseFormat: { format: { case: "json", value: {} } } }), "it is JSON"],
    [
      () => {
        const turn = writing("proved");
        turn.planned("a");
        turn.update({ case: "textDelta", value: { text: " and more" } });
        return turn;
      },
      "there is a call in it",
    ],
    [
      () => {
        const turn = writing("proved");
        turn.facts.found.ways = { continues: "restart", prefills: "proved" };
        return turn;
      },
      "it is not wanted",
    ],
  ] as const) {
    const turn = make();
    broke(turn);
    assert.equal(wanted(turn), "fail: the provider broke off", what);
    const { options } = turn.facts;
    assert.ok(options !== undefined);
    options.shownIsFinal = false;
    assert.equal(wanted(turn), "restart step 0 from 7, attempt 1", what);
    turn.facts.found.ways = { continues: "off", prefills: "proved" };
    assert.equal(wanted(turn), "fail: the provider broke off", what);
  }
});

test("G2: a text is continued twice at the most, and not behind a continuation that added too little", () => {
  const turn = writing("proved");
  continued(turn, 1);
  turn.update({ case: "textDelta", value: { text: ", fifteen chars" } }, 20);
  broke(turn);
  assert.equal(wanted(turn), "fail: the provider broke off");
  turn.update({ case: "textDelta", value: { text: "." } }, 21);
  assert.equal(wanted(turn), "continue step 0 behind 21, attempt 2, continuation 2");
  continued(turn, 2);
  turn.update({ case: "textDelta", value: { text: " And much, much more." } });
  broke(turn);
  assert.equal(wanted(turn), "fail: the provider broke off");
});

test("G2: a step pays for six answers at the most, however often it is continued and begins anew", () => {
  const turn = writing("proved", { shownIsFinal: false });
  for (let restart = 1; restart <= 2; restart++) {
    continued(turn, 1);
    broke(turn, { isUnjoined: false });
    assert.equal(wanted(turn), `restart step 0 from ${restart === 1 ? 7 : 19}, attempt ${2 * restart}`);
    turn.restarted(19);
    turn.update({ case: "textDelta", value: { text: TEXT } }, 20);
  }
  broke(turn);
  assert.equal(wanted(turn), "continue step 0 behind 20, attempt 5, continuation 1");
  continued(turn, 1);
  turn.update({ case: "textDelta", value: { text: " and much, much more" } }, 21);
  broke(turn);
  assert.equal(wanted(turn), "fail: the provider broke off");
  turn.facts.found.broken = undefined;
  assert.equal(wanted(turn), "fail: a step was cut off 6 times");
});

test("G1: a join that was not proved is tried once more with all of the text, by a model that has proved one", () => {
  for (const prefills of ["untried", "proved"] as const) {
    const turn = writing(prefills);
    continued(turn, 1);
    broke(turn, { isUnjoined: true });
    const again = "continue step 0 behind 9, attempt 2, continuation 1, unproved";
    assert.equal(wanted(turn), prefills === "proved" ? again : "fail: the provider broke off");
    continued(turn, 1, true);
    broke(turn, { isUnjoined: true });
    assert.equal(wanted(turn), "fail: the provider broke off");
  }
});

test("F1: a text that a crash cut off, and that its model does not continue, begins anew", () => {
  const turn = writing("untried");
  turn.facts.found.pastHead = 9;
  continued(turn, 1);
  turn.facts.found.ways = { continues: "exact", prefills: "no" };
  broke(turn, { isUnjoined: true });
  assert.equal(wanted(turn), "restart step 0 from 7, attempt 2");
  turn.facts.found.pastHead = 8;
  assert.equal(wanted(turn), "fail: the provider broke off", "this run has shown the end of the text (G1)");
  turn.facts.found.pastHead = 9;
  broke(turn, { isUnjoined: false });
  assert.equal(wanted(turn), "fail: the provider broke off", "the provider broke it off, and no crash");
});

test("G2: no request is left for a continuation", () => {
  const turn = writing("proved");
  broke(turn, { requests: 12 });
  assert.equal(wanted(turn), "fail: the provider broke off");
  const killed = TurnOfFacts.asked();
  killed.started(7, 9);
  killed.update({ case: "textDelta", value: { text: TEXT } });
  killed.facts.found.ways = { continues: "exact", prefills: "proved" };
  assert.equal(wanted(killed), "restart step 0 from 7, attempt 1");
});

test("G6: a continuation that a crash cut off is read again, with the text that it continues; else the text is continued", () => {
  const turn = holding(true);
  turn.facts.found.ways = { continues: "exact", prefills: "proved" };
  turn.started(7);
  turn.update({ case: "textDelta", value: { text: TEXT } }, 9);
  continued(turn, 1);
  turn.update({ case: "textDelta", value: { text: ", and that is all." } }, 20);
  const decision = turn.next();
  assert.ok(decision.kind === "call_model");
  const runs = [{ kind: "text", text: ", and that is all." }];
  const join = { text: TEXT, isUnproved: false };
  assert.deepEqual(decision.place.begin, { how: "attach", runs, join });
  turn.facts.found.isLost = true;
  assert.equal(wanted(turn), "continue step 0 behind 20, attempt 2, continuation 2");
});
