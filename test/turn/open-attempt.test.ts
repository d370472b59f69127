/** Which attempt at which step a log leaves open, and what its request is named by: a reader after a kill asks the line for exactly that call. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentServerMessage } from "../../src/protocol/index.ts";
import { openAttempt, requestText } from "../../src/turn/open-step.ts";
import { completed, restarted, started, text, update } from "./said.ts";

const openIn = (...messages: readonly AgentServerMessage[]) =>
  openAttempt(messages.map((message) => ({ message })));
const continued = update({ case: "stepContinued", value: { step: 0, rollbackToEventId: "2" } });

test("G6: every restart and every continuation of a step is another attempt, and a completed step leaves none open", () => {
  assert.equal(openIn(), undefined);
  assert.deepEqual(openIn(started(0), text("Hel")), { step: 0, attempt: 0 });
  assert.deepEqual(openIn(started(0), restarted(0, 1), continued, text("lo")), { step: 0, attempt: 2 });
  assert.equal(openIn(started(0), restarted(0, 1), completed(0)), undefined);
  assert.deepEqual(openIn(started(0), restarted(0, 1), completed(0), started(1)), { step: 1, attempt: 0 });
  // The log of a reader that came later begins behind the start of the step.
  assert.deepEqual(openIn(restarted(2, 1)), { step: 2, attempt: 1 });
});

test("G6: no two requests of a turn have the same name", () => {
  const numbers = [0, 1, 11];
  const names = numbers.flatMap((step) =>
    numbers.flatMap((attempt) => numbers.map((request) => requestText({ step, attempt }, request))),
  );
  assert.equal(new Set(names).size, 27);
});
