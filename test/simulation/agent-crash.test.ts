/**
 * A conversation with the production agent and client, and one crash: before and after every call that leaves
 * a process, and at every event.
 *
 * However it falls, the turns end completed, no tool takes effect twice, no finished step is run again, and the
 * conversation is the one that it would have been.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkCrash } from "./agent-comparison.ts";
import { type AgentCrash, type Conversed, converse, type ConverseOptions } from "./agent-scenario.ts";

/** One turn for the many points, two for those between which a conversation goes on. */
const ONE: ConverseOptions = { seed: 1, turns: 1 };
const TWO: ConverseOptions = { seed: 1, turns: 2 };

interface Tally {
  runs: number;
  crashes: number;
  restarts: number;
  unknown: number;
}

async function crashAll(
  options: ConverseOptions,
  whole: Conversed,
  crashes: readonly AgentCrash[],
): Promise<Tally> {
  const tally: Tally = { runs: 0, crashes: 0, restarts: 0, unknown: 0 };
  for (const crash of crashes) {
    const ended = await checkCrash(options, crash, whole);
    tally.runs++;
    tally.crashes += ended.crashes - whole.crashes;
    tally.restarts += ended.restarts;
    tally.unknown += ended.unknown;
  }
  // The last calls leave when everything is over: nobody waits for those.
  assert.ok(tally.runs - tally.crashes <= 3, "almost every crash was met");
  return tally;
}

function atEveryEvent(who: AgentCrash["who"], events: number): readonly AgentCrash[] {
  return Array.from({ length: events }, (_, at) => ({ who, event: at + 1 }));
}

test("the conversation itself: steps, parallel tools, an edit with two execs, and the same trace every time", async () => {
  const whole = await converse(TWO);
  assert.equal((await converse(TWO)).traceHash, whole.traceHash);
  assert.equal(whole.prompts.length, 5);
  assert.equal(whole.execs, 5);
  assert.deepEqual(whole.commands.toSorted(), ["first", "second"]);
  assert.deepEqual(whole.files, { "notes.txt": "the new text" });
});

test("C0, C1, F1: the server dies before and after each of its calls, and nothing is done twice", async (t) => {
  const whole = await converse(ONE);
  const tally = await crashAll(ONE, whole, whole.points.server);
  t.diagnostic(JSON.stringify(tally));
  assert.ok(tally.restarts > 10, "steps were cut off");
});

test("C0, C1, F1: the server dies at every event of two turns", async (t) => {
  const whole = await converse(TWO);
  const tally = await crashAll(TWO, whole, atEveryEvent("server", whole.points.events));
  t.diagnostic(JSON.stringify(tally));
});

test("B3, C1, C2: the client dies before and after each of its calls; what it did not finish is unknown", async (t) => {
  const whole = await converse(ONE);
  const tally = await crashAll(ONE, whole, whole.points.client);
  t.diagnostic(JSON.stringify(tally));
  assert.ok(tally.unknown > 10, "tools were cut off");
});

test("B3, C1, C2: the client dies at every event that it takes, of two turns", async (t) => {
  const whole = await converse(TWO);
  const tally = await crashAll(TWO, whole, atEveryEvent("client", whole.points.taken));
  t.diagnostic(JSON.stringify(tally));
});
