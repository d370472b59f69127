import assert from "node:assert/strict";
import { test } from "node:test";
import { answerRef } from "../../src/gateway/answer-ref.ts";
import { GivenAnswers } from "../../src/gateway/given-answers.ts";
import { Names } from "../../src/gateway/names.ts";
import { livesElsewhere, type Neighbours, uncontested } from "../../src/gateway/neighbours.ts";
import { NO_ROW, SealedRows } from "../../src/gateway/sealed-rows.ts";
import { newSession, type SessionRecord } from "../../src/gateway/session-record.ts";
import { SessionStore } from "../../src/gateway/session-store.ts";
import { Takeovers } from "../../src/gateway/takeovers.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { joinNodes } from "../../src/node/node-life.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const FENCED = { code: "fenced" };

interface Node {
  readonly store: SessionStore;
  readonly given: GivenAnswers;
}

function cluster(living: Set<string>) {
  const tables = memoryTableStore({ now: () => 0 });
  const names = new Names(new Uint8Array(32).fill(1));
  return (self: string): Node => {
    const isAlive = async (owner: string): Promise<boolean> => living.has(owner);
    const neighbours: Neighbours = { self, isAlive, onGone: () => () => undefined };
    const sealer = nodeSealing().homeSealer(new Uint8Array(32).fill(2));
    const rows = new SealedRows({
      tables,
      sealer,
      onDamaged: (cause) => assert.fail(String(cause)),
      environment: { after: () => assert.fail("nothing waits") },
    });
    const given = new GivenAnswers({ rows, names, now: () => 0, neighbours });
    return { given, store: new SessionStore({ rows, given, names, ttlMs: 1_000 }) };
  };
}

const ANSWER = answerRef({ streamId: "s", model: "m", fromEvent: 3, includeUsage: false, door: "chat" }, 0);

function session(): SessionRecord {
  const names = {
    principal: "p",
    model: "m",
    conversationId: "c",
    context: "",
    requestHead: "",
  };
  return newSession({
    ...names,
    answer: ANSWER,
    historyBytes: 0,
    responses: [],
    checkpoint: "",
    createdMs: 0,
  });
}

test("D1: of two nodes that write the same version of a session one has it, and the other writes nothing", async () => {
  const node = cluster(new Set(["a", "b"]));
  const [a, b] = [node("a"), node("b")];
  const claim = { version: NO_ROW };
  await a.store.save({ ...session(), owner: "a" }, [], { claim });
  const { version } = await b.store.look("p", "s");
  assert.equal(version, claim.version);
  await b.store.save({ ...session(), owner: "b" }, [], { claim: { version } });
  let isSaid = false;
  const behind = async (): Promise<void> => void (isSaid = true);
  await assert.rejects(a.store.save({ ...session(), owner: "a" }, [], { claim, behind }), FENCED);
  await assert.rejects(a.store.remove(session(), { withResponses: true, claim }), FENCED);
  assert.equal(isSaid, false, "what follows the record is not said");
  assert.equal((await a.store.byStream("p", "s"))?.owner, "b");
});

test("D1: an answer that another node has taken is not written over by what its giver learns late", async () => {
  const node = cluster(new Set(["a", "b"]));
  const [a, b] = [node("a"), node("b")];
  const [body, ttlMs] = ["f".repeat(64), 1_000];
  const record = {
    answer: ANSWER,
    bodyHash: "",
    isRetried: false,
    isKeyed: false,
    takes: 0,
    delivery: "open",
  } as const;
  await a.store.write([await a.given.begin(body, record, ttlMs)]);
  const [atA] = await a.given.ofBody(body);
  const [atB] = await b.given.ofBody(body);
  assert.equal(atB?.delivery, "open", "its giver lives");
  assert.ok(atA !== undefined);
  await b.given.take(atB, ttlMs);
  a.given.respond(atA).delivery = "lost";
  await a.given.note(atA, ttlMs);
  assert.equal((await node("c").given.ofBody(body))[0]?.delivery, "open");
  await assert.rejects(a.given.take(atA, ttlMs), FENCED, "it was taken at the other node");
});

test("what a node that is gone had open counts as lost", async () => {
  const living = new Set(["a"]);
  const node = cluster(living);
  const [a, b] = [node("a"), node("b")];
  const [body, ttlMs] = ["e".repeat(64), 1_000];
  const record = {
    answer: ANSWER,
    bodyHash: "",
    isRetried: false,
    isKeyed: false,
    takes: 0,
    delivery: "open",
  } as const;
  await a.store.write([await a.given.begin(body, record, ttlMs)]);
  living.delete("a");
  assert.equal((await b.given.ofBody(body))[0]?.delivery, "lost");
});

test("D7: a process that is silent for its lease is gone, a restarted one is another, and those that go are told of", async () => {
  let nowMs = 0;
  const tables = memoryTableStore({ now: () => nowMs });
  const [a, b] = [await joinNodes(tables, "a", 60_000), await joinNodes(tables, "b", 60_000)];
  assert.ok((await livesElsewhere(a, b.self)) && !(await livesElsewhere(a, a.self)));
  const restarted = await joinNodes(tables, "b", 60_000);
  assert.ok(!(await a.isAlive(b.self)) && (await a.isAlive(restarted.self)));
  nowMs += 60_000;
  assert.equal(await a.isAlive(restarted.self), false);
  await Promise.all([a, b, restarted].map((one) => one.close()));
});

test("work that another node was ahead of is done anew, and given up after many times", async () => {
  let left = 3;
  const contested = async (): Promise<string> => {
    if (left-- > 0) throw new HoldfastError("fenced", "another node was first");
    return "done";
  };
  assert.equal(await uncontested(contested), "done");
  left = Infinity;
  await assert.rejects(uncontested(contested), { code: "unavailable" });
  await assert.rejects(
    uncontested(() => Promise.reject(new Error("another"))),
    /another/,
  );
});

test("F1: results are taken to a session whose living owner lacks them, and once", async () => {
  const node = cluster(new Set(["a", "b", "c"]));
  const { store } = node("a");
  const call = { toolId: "t", execId: "e", id: 1, toolCallId: "c" };
  const begun = { ...session(), answered: [call] };
  await store.save({ ...begun, owner: "gone" }, [], { claim: { version: NO_ROW } });
  const owners: (string | undefined)[] = [];
  const takenBy = async (self: string, hasResults: boolean): Promise<void> => {
    const isAlive = async (owner: string): Promise<boolean> => owner !== "gone";
    const takeovers = new Takeovers({
      neighbours: { self, isAlive, onGone: () => () => undefined },
      store: node(self).store,
      closing: new AbortController().signal,
      find: () => undefined,
      run: async (record) => {
        owners.push(record.owner);
        throw new HoldfastError("internal", "only the claim is looked at");
      },
    });
    await takeovers.takeUp("p", "s", { hasResults }).catch(() => undefined);
  };
  // By a reader, which has none.
  await takenBy("a", false);
  await takenBy("b", false);
  assert.deepEqual(owners, ["a"]);
  await takenBy("b", true);
  await takenBy("c", true);
  assert.deepEqual(owners, ["a", "b"]);
  assert.equal((await store.byStream("p", "s"))?.lacksResults, undefined);
});
