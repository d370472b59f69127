/**
 * What follows when a step's output is cut off: the same generation, the same text by the same model, or the step anew.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { broke, TurnOfFacts, wanted } from "./turn-of-facts.ts";

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
    assert.deepEqual(decision.place.begin, { how: "restart", rollbackTo: 7 });
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
