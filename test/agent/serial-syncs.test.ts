/**
 * How often a turn waits for the disk: the syncs that stand in a row between a request and what it asks for.
 *
 * The numbers are upper bounds that only a decision may raise (decision 31); and whatever of it is on its way to the disk
 * when the server dies was seen by nobody.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type Said, ScriptedModel } from "./scripted-model.ts";
import { ServedTurn, SlowLog, textIn } from "./served-turn.ts";
import { endOf, kindsOf, textOf } from "./told.ts";

const shell = (command: number): Said => ({ tool: "shell", args: { command: `${command}` } });
const list = (at: number): Said => ({
  tool: "todo_write",
  args: { todos: [{ id: `${at}`, text: "more", status: "completed" }] },
});
const twenty = <Value>(make: (at: number) => Value): readonly Value[] =>
  Array.from({ length: 20 }, (_, at) => make(at));

interface Syncs {
  /** From the request to the end of the turn. */
  readonly all: number;
  /** From the request, or the last result, to the first text behind it. */
  readonly toText: number;
}

async function syncsOf(t: TestContext, model: ScriptedModel, keepsBlobs: boolean): Promise<Syncs> {
  const log = new SlowLog();
  const turn = new ServedTurn(model);
  await turn.serve(log);
  const begun = log.appends;
  let since = begun;
  let toText: number | undefined;
  turn.onEvent = (event) => {
    if (event.message.case === "execServerMessage") {
      since = log.appends;
      toText = undefined;
    }
    if (textIn(event) !== "") toText ??= log.appends - since;
  };
  await turn.run(t, { keepsBlobs });
  assert.match(turn.wordsTold, /Done\.$/u);
  return { all: log.appends - begun, toText: toText ?? Infinity };
}

const TURNS: readonly {
  readonly name: string;
  readonly model: () => ScriptedModel;
  readonly plain: Syncs;
  readonly kept: Syncs;
}[] = [
  {
    name: "an answer",
    model: () => ScriptedModel.steps(["Done."]),
    plain: { all: 2, toText: 2 },
    kept: { all: 3, toText: 2 },
  },
  {
    name: "a tool call and an answer",
    model: () => ScriptedModel.steps([shell(0)], ["Done."]),
    plain: { all: 4, toText: 2 },
    kept: { all: 5, toText: 2 },
  },
  {
    name: "twenty calls one after the other",
    model: () => ScriptedModel.steps(...twenty((at) => [shell(at)]), ["Done."]),
    plain: { all: 42, toText: 2 },
    kept: { all: 43, toText: 2 },
  },
  {
    name: "twenty calls at once",
    model: () => ScriptedModel.steps(twenty(shell), ["Done."]),
    plain: { all: 4, toText: 2 },
    kept: { all: 5, toText: 2 },
  },
  {
    name: "twenty calls that the server answers itself",
    model: () => ScriptedModel.steps(...twenty((at) => [list(at)]), ["Done."]),
    plain: { all: 23, toText: 22 },
    kept: { all: 43, toText: 42 },
  },
];

for (const { name, model, plain, kept } of TURNS) {
  test(`syncs in a row: ${name}`, async (t) => {
    for (const [most, keepsBlobs] of [
      [plain, false],
      [kept, true],
    ] as const) {
      const { all, toText } = await syncsOf(t, model(), keepsBlobs);
      t.diagnostic(`${keepsBlobs ? "with" : "without"} a kept conversation: ${all}, to the text ${toText}`);
      assert.ok(all <= most.all, `${all} syncs, ${most.all} at most`);
      assert.ok(toText <= most.toText, `${toText} syncs to the text, ${most.toText} at most`);
    }
  });
}

/** A step with tools, one that the server answers itself, the answer. */
const script = (): ScriptedModel =>
  ScriptedModel.steps([shell(0), shell(1)], [list(0)], ["All ", "is done."]);

/** The server dies while append number `at` of the turn is on its way. */
async function killedAt(t: TestContext, at: number, model: ScriptedModel) {
  const log = new SlowLog();
  const turn = new ServedTurn(model);
  await turn.serve(log);
  log.loseAt = log.appends + at;
  const running = turn.run(t);
  await Promise.race([log.dying.promise, running]);
  const atDeath = { calls: model.calls.length, events: turn.events.length };
  log.loseAt = undefined;
  const isKilled = log.isDying;
  if (isKilled) await turn.die(log);
  await running;
  return { turn, atDeath, isKilled };
}

test("B2, C0, C1: killed while a commit is on its way, the turn ends as if nothing had happened, with one model call more at most", async (t) => {
  const whole = (await killedAt(t, Infinity, script())).turn;
  const steps = 3;
  let more = 0;
  for (let at = 1; ; at++) {
    const model = script();
    const { turn, isKilled } = await killedAt(t, at, model);
    if (!isKilled) break;
    assert.equal(textOf(turn.events), textOf(whole.events), `killed at commit ${at}`);
    assert.equal(endOf(turn.events).reason, endOf(whole.events).reason);
    // A step that was begun anew has other exec ids.
    assert.deepEqual([...turn.effects.values()], [...whole.effects.values()], `killed at commit ${at}`);
    assert.equal(kindsOf(turn.events).filter((kind) => kind === "stepCompleted").length, steps);
    assert.ok(model.calls.length <= steps + 1, `${model.calls.length} calls, killed at commit ${at}`);
    more += model.calls.length - steps;
  }
  assert.ok(more > 3, "calls were under way when it died");
});

test("B2: a model that was called before its request was on disk has said nothing to anybody when the server dies", async (t) => {
  const model = script();
  // The stream, its first chunk and what the turn says at once are one commit.
  const { turn, atDeath } = await killedAt(t, 1, model);
  assert.deepEqual(atDeath, { calls: 1, events: 0 });
  assert.equal(model.calls.length, 4);
  assert.equal(
    kindsOf(turn.events).filter((kind) => kind === "stepRestarted").length,
    0,
    "nothing was begun",
  );
  assert.equal(textOf(turn.events), "All is done.");
});
