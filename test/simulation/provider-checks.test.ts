/**
 * The checks of the provider's side: what they blame, and what only looks alike.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { CANCELLED, LetGo } from "../../src/protocol/let-go.ts";
import type { Generation, Reader } from "./generation.ts";
import { isUsersStop } from "./provider.ts";
import { ProviderChecks } from "./provider-checks.ts";
import { SimProcess, World } from "./world/index.ts";

function generation(more: Partial<Generation> = {}): Generation {
  return {
    parts: [],
    text: "",
    calls: [],
    conversationId: "laptop.1",
    answers: 0,
    degradedStep: undefined,
    name: undefined,
    breaksAt: 0,
    said: 0,
    state: "stopped",
    epoch: 1,
    reader: undefined,
    wasOrphaned: false,
    wasLetGo: false,
    wasAborted: false,
    attaches: 0,
    gapAt: undefined,
    ...more,
  };
}

function readerIn(epoch: number): Reader {
  return { process: new SimProcess(new World(1), "server"), epoch, wake: () => undefined };
}

test("G4: a call that was let go is left by the run that ends the turn, unless the run that made it lost the request and no other has read it", () => {
  const checks = new ProviderChecks();
  const lost = generation({ wasLetGo: true });
  checks.began(lost, 1);
  assert.throws(() => checks.checkEnd(() => 1), /G4/);
  checks.checkEnd(() => 2);
  // The stream was never durable: it is begun again, in the same host epoch.
  checks.requested("laptop.1");
  checks.checkEnd(() => 1);
  lost.attaches = 1;
  assert.throws(() => checks.checkEnd(() => 1), /G4/);
  lost.wasLetGo = false;
  checks.checkEnd(() => 1);
  checks.began(generation({ wasLetGo: true }), 1);
  assert.throws(() => checks.checkEnd(() => 1), /G4/);
  checks.checkEnd(() => 2);
  checks.began(generation({ state: "expired", epoch: 2 }), 2);
  assert.throws(() => checks.checkEnd(() => 2), /G4/);
});

test("G2: the answers of a step are counted over its stream; a degraded stream that the network opens once more counts its own", () => {
  const checks = new ProviderChecks();
  const [one, other] = [{}, {}];
  for (let answers = 0; answers < 6; answers++) checks.began(generation({ said: 1, degradedStep: one }), 1);
  checks.began(generation({ said: 1, degradedStep: other }), 1);
  assert.throws(() => checks.began(generation({ said: 1, degradedStep: one }), 1), /G2/);
});

test("G2: a request that was lost with the turn's own is in no log; every other one is", () => {
  const checks = new ProviderChecks();
  checks.began(generation(), 1);
  checks.began(generation({ reader: readerIn(2) }), 2);
  checks.requested("laptop.1");
  checks.counted("laptop.1", 0, 1);
  checks.began(generation(), 2);
  assert.throws(() => checks.counted("laptop.1", 0, 1), /G2/);
  checks.counted("laptop.1", 0, 2);
});

test("G2: a call that is found before the log has the request is in no log, and neither is the one request that its run sends in its place at once", () => {
  const checks = new ProviderChecks();
  const found = generation();
  const { process } = readerIn(1);
  checks.began(found, 1);
  found.attaches = 1;
  checks.attached(found, process, 1);
  checks.requested("laptop.1");
  checks.counted("laptop.1", 0, 0);
  checks.began(generation(), 1);
  checks.counted("laptop.1", 0, 0);
  checks.began(generation(), 1);
  assert.throws(() => checks.counted("laptop.1", 0, 1), /G2/);
});

test("G2: a call of the first host that is found when the log has the request is in the log", () => {
  const checks = new ProviderChecks();
  const { process } = readerIn(1);
  const call = generation({ reader: readerIn(1) });
  checks.began(call, 1);
  checks.requested("laptop.1");
  Object.assign(call, { reader: undefined, attaches: 1 });
  checks.attached(call, process, 1);
  assert.throws(() => checks.counted("laptop.1", 0, 0), /G2/);
});

test("G1: at a join that was not proved white space may be less, and words may not be pushed together", () => {
  const checks = new ProviderChecks();
  checks.began(generation({ state: "whole", text: "by  east" }), 1);
  const step = { conversationId: "laptop.1", calls: [], mayBeCut: false };
  assert.throws(() => checks.completed({ ...step, text: "by east" }), /G1/);
  checks.unproved("laptop.1");
  checks.completed({ ...step, text: "by east" });
  checks.unproved("laptop.1");
  assert.throws(() => checks.completed({ ...step, text: "byeast" }), /G1/);
});

test("G6: a call that its user stopped may be asked for again, one that its host stopped may not", () => {
  assert.ok(isUsersStop(CANCELLED) && isUsersStop(AbortSignal.abort().reason));
  assert.ok(isUsersStop(new HoldfastError("stream_ended", "aborted")));
  assert.ok(!isUsersStop(new HoldfastError("unavailable", "lost")) && !isUsersStop(new LetGo("lost")));
  const checks = new ProviderChecks();
  checks.began(generation({ wasAborted: true }), 1);
  assert.throws(() => checks.began(generation(), 1), /G6/);
});

test("G1: a step that was cancelled before its call was made says nothing, and no generation did", () => {
  const checks = new ProviderChecks();
  const said = { conversationId: "laptop.1", text: "", calls: [] };
  checks.completed({ ...said, mayBeCut: true });
  assert.throws(() => checks.completed({ ...said, mayBeCut: false }), /G1/);
  assert.throws(() => checks.completed({ ...said, text: "a", mayBeCut: true }), /G1/);
});

test("D1: a cancel that the line hears is that of the newest host, or of an equal one", () => {
  const checks = new ProviderChecks();
  checks.cancelled(generation({ epoch: 2 }), 2);
  assert.throws(() => checks.cancelled(generation({ epoch: 2 }), 1), /D1/);
});
