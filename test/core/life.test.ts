/**
 * A stream's life on the server, and the client's wish to stop it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as life from "../../src/core/life.ts";
import * as stop from "../../src/core/stop.ts";
import { kinds, last, run } from "./run.ts";

const generating = life.init(false, undefined);
const abort: life.Input = { kind: "abort" };
const emit: life.Input = { kind: "emit" };
const end: life.Input = { kind: "end", reason: "completed" };
const graceOver: life.Input = { kind: "grace_over" };

test("D3: after an abort the application says nothing but its last word, and that word is aborted", () => {
  const [, effects] = run(life.step, generating, [emit, abort, emit, end]);
  assert.deepEqual(effects, [
    { kind: "record_event" },
    { kind: "record_abort" },
    { kind: "refuse" },
    { kind: "record_end", reason: "aborted" },
  ]);
});

test("A8, D3: a second abort changes nothing", () => {
  assert.deepEqual(kinds(run(life.step, generating, [abort, abort])[1]), ["record_abort"]);
});

test("D3: an abort that comes after the end is too late and harmless", () => {
  const [state, effects] = last(life.step, generating, [end, abort]);
  assert.deepEqual(effects, []);
  assert.equal(state.end, "completed");
});

test("F1: an application that does not end after an abort is ended when its grace is over", () => {
  const [, effects] = last(life.step, generating, [abort, graceOver]);
  assert.deepEqual(effects, [{ kind: "record_end", reason: "aborted" }]);
  assert.deepEqual(last(life.step, generating, [abort, end, graceOver])[1], []);
});

test("F1: a restarted host finds an aborted stream and can only end it", () => {
  assert.deepEqual(kinds(run(life.step, life.init(true, undefined), [emit, graceOver])[1]), [
    "refuse",
    "record_end",
  ]);
});

test("grace runs only after an abort", () => {
  assert.throws(() => life.step(generating, graceOver), AssertionFailed);
});

test("B6, D6: whatever happens, there is one end, nothing after it, and only the end after an abort", () => {
  const input = fc.constantFrom(abort, emit, end, { kind: "end", reason: "failed" } as const);
  fc.assert(
    fc.property(fc.array(input, { maxLength: 20 }), (inputs) => {
      const log = kinds(run(life.step, generating, inputs)[1]).filter((kind) => kind !== "refuse");
      const ends = log.filter((kind) => kind === "record_end").length;
      assert.ok(ends === 0 || (ends === 1 && log.at(-1) === "record_end"));
      const abortedAt = log.indexOf("record_abort");
      if (abortedAt >= 0) assert.ok(log.slice(abortedAt + 1).every((kind) => kind === "record_end"));
    }),
  );
});

const idle = stop.init(false);
const wanted: stop.Input = { kind: "wanted" };
const journaled: stop.Input = { kind: "journaled" };
const attached: stop.Input = { kind: "attached" };
const detached: stop.Input = { kind: "detached" };
const told = (aborted: boolean): stop.Input => ({ kind: "told", aborted });

test("D3: the wish goes into the journal first, then to the server", () => {
  assert.deepEqual(kinds(run(stop.step, idle, [attached, wanted])[1]), ["journal"]);
  assert.deepEqual(kinds(run(stop.step, idle, [attached, wanted, journaled])[1]), ["journal", "send"]);
});

test("D3: an abort is repeated at each attach until a welcome or a heartbeat says aborted", () => {
  const breaks = [detached, told(false), attached];
  const [asking, effects] = run(stop.step, idle, [wanted, journaled, attached, ...breaks, ...breaks]);
  assert.deepEqual(kinds(effects), ["journal", "send", "send", "send"]);
  assert.deepEqual(run(stop.step, asking, [detached, told(true), attached])[1], []);
});

test("D3: a heartbeat that knows nothing of the abort betrays that it was lost, and it is sent again", () => {
  const sent = [attached, wanted, journaled];
  assert.deepEqual(kinds(last(stop.step, idle, [...sent, told(false)])[1]), ["send"]);
  assert.deepEqual(last(stop.step, idle, [...sent, told(true)])[1], []);
  assert.deepEqual(last(stop.step, idle, [attached, told(false)])[1], []);
});

test("D3: a client that crashed after the wish was on disk sends it when it is back", () => {
  assert.deepEqual(kinds(run(stop.step, stop.init(true), [attached])[1]), ["send"]);
});

test("D3: pressing the button twice is one wish", () => {
  assert.deepEqual(kinds(run(stop.step, idle, [wanted, wanted, journaled, wanted])[1]), ["journal"]);
});

test("D3: a wish that was somebody else's already is not sent", () => {
  assert.deepEqual(run(stop.step, idle, [told(true), wanted, attached])[1], []);
  assert.deepEqual(kinds(run(stop.step, idle, [attached, wanted, told(true), journaled])[1]), ["journal"]);
});
