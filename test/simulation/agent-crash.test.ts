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
import { type AgentCrash, type Conversed, converse } from "./agent-scenario.ts";

const SEED = 1;

const whole = await converse(SEED);

interface Tally {
  runs: number;
  restarts: number;
  unknown: number;
}

async function crashAll(crashes: Iterable<AgentCrash>): Promise<Tally> {
  const tally: Tally = { runs: 0, restarts: 0, unknown: 0 };
  for (const crash of crashes) {
    const { restarts, unknown }: Conversed = await checkCrash(SEED, crash, whole);
    tally.runs++;
    tally.restarts += restarts;
    tally.unknown += unknown;
  }
  return tally;
}

function* atEveryCall(who: AgentCrash["who"]): Generator<AgentCrash> {
  for (let effect = 1; effect <= whole.points[who]; effect++) {
    yield { who, effect, when: "before" };
    yield { who, effect, when: "after" };
  }
}

function* atEveryEvent(who: AgentCrash["who"], events: number): Generator<AgentCrash> {
  for (let event = 1; event <= events; event++) yield { who, event };
}

test("the conversation itself: steps, parallel tools, an edit with two execs, and the same trace every time", async () => {
  assert.equal((await converse(SEED)).traceHash, whole.traceHash);
  assert.equal(whole.prompts.length, 4);
  assert.equal(whole.execs, 6);
  assert.deepEqual(whole.commands.toSorted(), ["first", "second", "third"]);
  assert.deepEqual(whole.files, { "notes.txt": "the new text" });
});

test("C0, C1, F1: the server dies before and after each of its calls, and nothing is done twice", async (t) => {
  const tally = await crashAll(atEveryCall("server"));
  t.diagnostic(JSON.stringify(tally));
  assert.ok(tally.restarts > 10, "steps were cut off");
});

test("C0, C1, F1: the server dies at every event", async (t) => {
  t.diagnostic(JSON.stringify(await crashAll(atEveryEvent("server", whole.points.events))));
});

test("B3, C1, C2: the client dies before and after each of its calls; what it did not finish is unknown", async (t) => {
  const tally = await crashAll(atEveryCall("client"));
  t.diagnostic(JSON.stringify(tally));
  assert.ok(tally.unknown > 10, "tools were cut off");
});

test("B3, C1, C2: the client dies at every event that it takes", async (t) => {
  t.diagnostic(JSON.stringify(await crashAll(atEveryEvent("client", whole.points.taken))));
});
