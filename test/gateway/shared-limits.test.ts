/** Limits of API keys that hold over all nodes, and the clock of sessions whose node died. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerRef } from "../../src/gateway/answer-ref.ts";
import { BackgroundTasks } from "../../src/gateway/background-tasks.ts";
import { GivenAnswers } from "../../src/gateway/given-answers.ts";
import { Names } from "../../src/gateway/names.ts";
import type { Neighbours } from "../../src/gateway/neighbours.ts";
import { Orphans } from "../../src/gateway/orphans.ts";
import { SealedRows } from "../../src/gateway/sealed-rows.ts";
import { newSession, type SessionRecord } from "../../src/gateway/session-record.ts";
import { SessionStore } from "../../src/gateway/session-store.ts";
import { SharedLimits } from "../../src/gateway/shared-limits.ts";
import { Takeovers } from "../../src/gateway/takeovers.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const HOUR_MS = 3_600_000;

function cluster() {
  const world = { nowMs: 0 };
  const living = new Set(["a", "b"]);
  const timers = new Set<{ readonly atMs: number; readonly ring: () => void }>();
  const tables = { ...memoryTableStore({ now: () => world.nowMs }) };
  const names = new Names(new Uint8Array(32).fill(1));
  const environment = {
    now: () => world.nowMs,
    randomBytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)),
    after(delayMs: number, ring: () => void) {
      const timer = { atMs: world.nowMs + delayMs, ring };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  const node = (self: string) => {
    const neighbours: Neighbours = {
      self,
      isAlive: async (owner) => living.has(owner),
      onGone: () => () => undefined,
    };
    const sealer = nodeSealing().homeSealer(new Uint8Array(32).fill(2));
    const onDamaged = (cause: unknown) => assert.fail(String(cause));
    const rows = new SealedRows({ tables, sealer, environment, onDamaged });
    const given = new GivenAnswers({ rows, names, now: environment.now, neighbours });
    const onRemoved = (record: SessionRecord) => limits.removed(record);
    const store = new SessionStore({ rows, given, names, ttlMs: HOUR_MS, onRemoved });
    const tasks = new BackgroundTasks((bug) => assert.fail(String(bug)), true);
    const limits = new SharedLimits({ rows, names, neighbours, store, tasks, environment });
    return { neighbours, store, tasks, limits };
  };
  const pass = async (ms: number): Promise<void> => {
    world.nowMs += ms;
    for (const timer of timers)
      if (timer.atMs <= world.nowMs) {
        timers.delete(timer);
        timer.ring();
      }
  };
  return { node, living, environment, pass, tables };
}

function session(streamId: string, more: Partial<SessionRecord> = {}): SessionRecord {
  const answer = answerRef({ streamId, model: "m", fromEvent: 0, includeUsage: false, door: "chat" }, 0);
  const names = { sessionId: streamId, principal: "p", model: "m", conversationId: "c", context: "" };
  const begun = newSession({
    ...names,
    requestHead: "",
    answer,
    historyBytes: 0,
    responses: [],
    checkpoint: "",
    createdMs: 0,
  });
  return { ...begun, ...more };
}

const AT_ONCE = { concurrency: 2, reads: [] };

test("E8: requests at once are counted over all nodes; those of a node that is gone are over", async () => {
  const { node, living } = cluster();
  const [a, b] = [node("a"), node("b")];
  const leave = await a.limits.enter("key", AT_ONCE);
  await b.limits.enter("key", AT_ONCE);
  await assert.rejects(b.limits.enter("key", AT_ONCE), { status: 429, code: "concurrency_limit_exceeded" });
  await b.limits.enter("another", AT_ONCE);
  leave();
  await a.tasks.done();
  await a.limits.enter("key", AT_ONCE);
  await assert.rejects(a.limits.enter("key", AT_ONCE), { status: 429 });
  living.delete("b");
  await a.limits.enter("key", AT_ONCE);
  await assert.rejects(a.limits.enter("key", AT_ONCE), { status: 429 });
});

test("a request that resumes what it read at another node takes the place of the one before it", async () => {
  const { node } = cluster();
  const [a, b] = [node("a"), node("b")];
  await a.limits.enter("key", { concurrency: 1, reads: ["idempotency key"] });
  await assert.rejects(b.limits.enter("key", { concurrency: 1, reads: ["other"] }), { status: 429 });
  await b.limits.enter("key", { concurrency: 1, reads: ["idempotency key"] });
});

test("E8: answers in the background are counted over all nodes, until their records say that they are over", async () => {
  const { node, pass } = cluster();
  const [a, b] = [node("a"), node("b")];
  await a.limits.admitBackground("p", "key", "one", 2);
  await b.limits.admitBackground("p", "key", "two", 2);
  // Its record is not written yet.
  await assert.rejects(a.limits.admitBackground("p", "key", "three", 2), { status: 429 });
  const [one, two] = ["one", "two"].map((id) => session(id, { isBackground: true, apiKeyId: "key" }));
  assert.ok(one !== undefined && two !== undefined);
  await Promise.all([a.store.save(one), b.store.save(two)]);
  await pass(HOUR_MS / 10);
  await assert.rejects(a.limits.admitBackground("p", "key", "three", 2), { status: 429 });
  await b.store.save({ ...two, state: "finished" });
  await a.limits.admitBackground("p", "key", "three", 2);
  // It never began.
  await pass(HOUR_MS / 10);
  await b.limits.admitBackground("p", "key", "four", 2);
});

test("E8: an answer in the background that is cancelled in its first minute gives its place back at every node", async () => {
  const { node } = cluster();
  const [a, b] = [node("a"), node("b")];
  const one = session("one", { isBackground: true, apiKeyId: "key" });
  await a.limits.admitBackground("p", "key", "one", 1);
  await a.store.save(one);
  await a.store.remove(one, { withResponses: false });
  await a.tasks.done();
  await b.limits.admitBackground("p", "key", "two", 1);
  await assert.rejects(a.limits.admitBackground("p", "key", "three", 1), { status: 429 });
});

test("F1: an answer in the background is removed although its place cannot be given back: the database is lost just then", async () => {
  const { node, tables } = cluster();
  const a = node("a");
  const one = session("one", { isBackground: true, apiKeyId: "key" });
  await a.limits.admitBackground("p", "key", "one", 1);
  await a.store.save(one);
  const before = { ...tables };
  tables.batch = async (writes) => {
    if (writes.some(({ table }) => table === "gateway_places"))
      throw new HoldfastError("unavailable", "the answer was lost");
    return before.batch(writes);
  };
  await a.store.remove(one, { withResponses: false });
  assert.equal(await a.store.byStream("p", "one"), undefined);
  await a.tasks.done();
});

test("E8: a session that waits beyond its API key's limit names the one that has waited longest, at whichever node", async () => {
  const { node } = cluster();
  const [a, b] = [node("a"), node("b")];
  const waiting = async (store: SessionStore, id: string): Promise<SessionRecord> => {
    const record = session(id, { state: "parked", parkedMax: 2 });
    await store.save(record);
    return record;
  };
  const one = await waiting(a.store, "one");
  assert.equal(await a.limits.parking(one), undefined);
  assert.equal(await b.limits.parking(await waiting(b.store, "two")), undefined);
  const three = await waiting(b.store, "three");
  assert.equal(await b.limits.parking(three), "one");
  await b.store.remove(one, { withResponses: true });
  assert.equal(await b.limits.parking(three), undefined);
  assert.equal(await b.limits.parking({ ...three, parkedMax: undefined }), undefined);
});

test("D7: a session whose node died is taken over before its time is over, by one node, unless its results came", async () => {
  const { node, living, environment, pass } = cluster();
  const taken: string[] = [];
  const nodes = ["b", "c"].map((self) => {
    const { neighbours, store, tasks } = node(self);
    const closing = new AbortController().signal;
    const takeovers = new Takeovers({
      neighbours,
      store,
      closing,
      find: () => undefined,
      run: async ({ answer, owner }) => {
        taken.push(`${owner} has ${answer.streamId}`);
        return assert.fail("only the claim is looked at");
      },
    });
    const quiet = new BackgroundTasks(() => undefined, true);
    return {
      store,
      tasks: quiet,
      orphans: new Orphans({ neighbours, takeovers, environment, tasks: quiet, ttlMs: HOUR_MS, closing }),
      own: tasks,
    };
  });
  living.add("c");
  const { store } = node("a");
  const parked = { state: "parked", owner: "a" } as const;
  await Promise.all(["waits", "continues"].map((id) => store.save(session(id, parked))));
  await store.save(session("lives", { state: "parked", owner: "b" }));
  living.delete("a");
  for (const { orphans, store: seen } of nodes) await orphans.learn(await seen.list());
  await store.save(session("continues", { state: "generating", owner: "b" }));
  await pass(HOUR_MS * 0.8);
  for (const { tasks } of nodes) await tasks.done();
  assert.equal(taken.length, 0);
  await pass(HOUR_MS * 0.15);
  for (const { tasks } of nodes) await tasks.done();
  assert.equal(taken.filter((one) => one.endsWith("waits")).length, 1);
  assert.ok(!taken.some((one) => one === "c has lives" || one === "c has continues"));
});
