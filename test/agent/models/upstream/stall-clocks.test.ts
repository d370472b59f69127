import assert from "node:assert/strict";
import { test } from "node:test";
import * as progress from "../../../../src/agent/models/upstream/answer-progress.ts";
import {
  deadlineMs,
  init,
  type Input,
  STALL_CLOCKS,
  type State,
  type StallClocks,
  step,
} from "../../../../src/agent/models/upstream/stall-clocks.ts";

const S = 1_000;

function after(state: State, ...inputs: readonly Input[]): State {
  return inputs.reduce(step, state);
}

function deadlineS(state: State, clocks: Partial<StallClocks> = {}): number {
  return deadlineMs(state, { ...STALL_CLOCKS, ...clocks }) / S;
}

const content = (writing: "thinking" | "text" | "arguments", atS: number): Input => ({
  kind: "content",
  writing,
  nowMs: atS * S,
});
const ping = (atS: number): Input => ({ kind: "ping", nowMs: atS * S });
const bytes = (atS: number): Input => ({ kind: "bytes", nowMs: atS * S });
const ended = (atS: number): Input => ({ kind: "block_ended", nowMs: atS * S });

test("F4: the first content has 240 s from the request, and neither bytes nor pings move that", () => {
  const begun = init(10 * S, false);
  assert.equal(deadlineS(begun), 250);
  assert.equal(deadlineS(after(begun, bytes(200), ping(240), ended(241))), 250);
});

test("F4: text and arguments have 60 s from one piece to the next, 90 s when pings come", () => {
  for (const writing of ["text", "arguments"] as const) {
    const written = after(init(0, false), content(writing, 5));
    assert.equal(deadlineS(written), 65);
    assert.equal(deadlineS(after(written, bytes(60))), 65);
    assert.equal(deadlineS(after(written, ping(20), ping(94))), 95);
    assert.equal(deadlineS(after(written, ping(20), content(writing, 30))), 90, "of the next silence");
  }
});

test("F4: thinking and what lies between blocks have 240 s, and 120 s without a byte of a provider that pings", () => {
  for (const inputs of [[content("thinking", 5)], [content("text", 5), ended(6)]]) {
    const quiet = after(init(0, false), ...inputs);
    assert.equal(deadlineS(quiet), 245);
    assert.equal(deadlineS(after(quiet, ping(100))), 220, "seen to ping, and then nothing");
    assert.equal(deadlineS(after(quiet, ping(100), ping(200))), 245);
    assert.equal(deadlineS(after(quiet, ping(100), bytes(230))), 245);
    assert.equal(
      deadlineS(after(init(0, true), ...inputs)),
      (inputs.length === 1 ? 5 : 6) + 120,
      "from before",
    );
  }
});

test("F4: without content it is over after 10 min, and after silenceMs, whatever the other clocks say", () => {
  const long = { firstContentMs: 9_000 * S, writingMs: 9_000 * S, thinkingMs: 9_000 * S };
  for (const state of [init(0, false), after(init(0, false), content("text", 0), ping(500))]) {
    assert.equal(deadlineS(state, long), 600);
    assert.equal(deadlineS(state, { silenceMs: 30 * S }), 30);
  }
});

test("a longer clock for writing is not shortened by pings", () => {
  const written = after(init(0, false), content("text", 0));
  assert.equal(deadlineS(written, { writingMs: 200 * S }), 200);
  assert.equal(deadlineS(after(written, ping(1)), { writingMs: 200 * S }), 200);
});

test("G5: behind the finish marker the rest has 2 s, and neither bytes nor pings move that", () => {
  const finished = progress.heardEvent(progress.init(0, false), { isFinish: true }, 5 * S);
  const dueS = (state: progress.State): number => progress.deadlineMs(state, STALL_CLOCKS, 2 * S) / S;
  assert.equal(dueS(finished), 7);
  const pinged = progress.heardEvent(progress.heard(finished, "bytes", 6 * S), { isPing: true }, 6 * S);
  assert.equal(dueS(pinged), 7);
  assert.equal(dueS(progress.heardEvent(pinged, { tokens: { output: 7 } }, 6 * S)), 8, "the usage does");
});
