import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Allowances, mayUse, type Visitor } from "../../../src/gateway/http/allowances.ts";
import type { Limits } from "../../../src/gateway/http/index.ts";
import { GatewayError } from "../../../src/gateway/openai/index.ts";
import { ApiKeys } from "../../../src/server/api-keys.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import { ask, bearer, eventually, readJson, VERSIONS } from "../../server/http/rig.ts";
import { askChat, chatBody, errorOf, openChat, startGateway } from "./gateway-rig.ts";
import { ended, ScriptedAnswer, text } from "./scripted-answers.ts";

const guest = (limits: Limits, apiKeyId = "a") => ({ principal: "p", apiKeyId, limits });

function visitor(reads: readonly string[] = [], isReturning = false): Visitor & { hasGivenWay: boolean } {
  const made = { reads: new Set(reads), isReturning, hasGivenWay: false };
  return Object.assign(made, { giveWay: () => void (made.hasGivenWay = true) });
}

test("E8: the rate is so many at once and in a minute, each API key for itself, and a refusal costs nothing", async () => {
  const clock = { nowMs: 0 };
  const allowances = new Allowances(() => clock.nowMs);
  const limits = { ratePerMinute: 3 };
  for (let count = 0; count < 3; count++) (await allowances.enter(guest(limits), visitor()))();
  const refuse = async (): Promise<number> => {
    try {
      await allowances.enter(guest(limits), visitor());
    } catch (error) {
      assert.ok(error instanceof GatewayError && error.status === 429 && error.isRetryable);
      return error.retryAfterMs ?? 0;
    }
    return 0;
  };
  for (let count = 0; count < 5; count++) assert.equal(await refuse(), 20_000);
  (await allowances.enter(guest(limits, "b"), visitor()))();
  clock.nowMs += 19_999;
  assert.equal(await refuse(), 1);
  clock.nowMs += 1;
  (await allowances.enter(guest(limits), visitor()))();
  assert.equal(await refuse(), 20_000);
  clock.nowMs += 10 * 60_000;
  for (let count = 0; count < 3; count++) (await allowances.enter(guest(limits), visitor()))();
  assert.equal(await refuse(), 20_000, "silence saves up no more than a minute");
});

test("E8: so many at once, and leaving twice leaves once", async () => {
  const allowances = new Allowances(() => 0);
  const limits = { concurrency: 2 };
  const first = await allowances.enter(guest(limits), visitor());
  await allowances.enter(guest(limits), visitor());
  await assert.rejects(allowances.enter(guest(limits), visitor()), {
    code: "concurrency_limit_exceeded",
    status: 429,
  });
  first();
  first();
  await allowances.enter(guest(limits), visitor());
  await assert.rejects(allowances.enter(guest(limits), visitor()), { code: "concurrency_limit_exceeded" });
  for (let count = 0; count < 10; count++) await allowances.enter(guest({}), visitor());
});

test("E8: who comes back to an answer takes the place of its dead connection when there is no room, and nobody else's", async () => {
  const allowances = new Allowances(() => 0);
  const limits = { concurrency: 2 };
  const [dead, other] = [visitor(["stream 1"]), visitor(["stream 2"])];
  const leaveDead = await allowances.enter(guest(limits), dead);
  await allowances.enter(guest(limits), other);
  await assert.rejects(allowances.enter(guest(limits), visitor(["stream 3"])), { status: 429 });
  await assert.rejects(allowances.enter(guest(limits), visitor()), { status: 429 });
  const back = visitor(["stream 1"], true);
  const leave = await allowances.enter(guest(limits), back);
  assert.deepEqual([dead.hasGivenWay, other.hasGivenWay], [true, false]);
  leaveDead();
  await assert.rejects(
    allowances.enter(guest(limits), visitor()),
    { status: 429 },
    "the place was given once",
  );
  leave();
  const [one, two] = [visitor(["stream 1"], true), visitor(["stream 2"], true)];
  await allowances.enter(guest(limits), one);
  await allowances.enter(guest(limits, "b"), two);
  assert.deepEqual(
    [other.hasGivenWay, one.hasGivenWay],
    [false, false],
    "with room, and for another API key",
  );
});

test("E8: a client that returns again takes the place that it took itself, also while its dead connection is still leaving", async () => {
  const allowances = new Allowances(() => 0);
  const limits = { concurrency: 1 };
  const [dead, back] = [visitor(["stream 1"]), visitor(["stream 1"], true)];
  await allowances.enter(guest(limits), dead);
  await allowances.enter(guest(limits), back);
  await allowances.enter(guest(limits), visitor(["stream 1"], true));
  assert.deepEqual([dead.hasGivenWay, back.hasGivenWay], [true, true]);
});

test("E8: coming back costs nothing of the rate, and has a limit of its own", async () => {
  const clock = { nowMs: 0 };
  const allowances = new Allowances(() => clock.nowMs);
  const limits = { ratePerMinute: 1 };
  (await allowances.enter(guest(limits), visitor()))();
  for (let count = 0; count < 600; count++) (await allowances.enter(guest(limits), visitor([], true)))();
  await assert.rejects(allowances.enter(guest(limits), visitor([], true)), { retryAfterMs: 100 });
  await assert.rejects(allowances.enter(guest(limits), visitor()), { retryAfterMs: 60_000 });
  clock.nowMs += 60_000;
  (await allowances.enter(guest(limits), visitor()))();
  (await allowances.enter(guest(limits), visitor([], true)))();
});

test("F2: API keys that are silent are forgotten, those with open requests are not", async () => {
  const clock = { nowMs: 0 };
  const allowances = new Allowances(() => clock.nowMs);
  await allowances.enter(guest({ concurrency: 1 }, "open"), visitor());
  for (let at = 0; at < 5_000; at++) {
    clock.nowMs += 100;
    (await allowances.enter(guest({ concurrency: 1 }, `key ${at}`), visitor()))();
  }
  await assert.rejects(allowances.enter(guest({ concurrency: 1 }, "open"), visitor()));
});

test("E8: a rate that several nodes share is spent there, and counted here where none does", async () => {
  const spentAs: string[] = [];
  let left = 2;
  const shared = {
    spend: async (apiKeyId: string): Promise<boolean> => {
      spentAs.push(apiKeyId);
      if (left-- === 0) throw new Error("spent at another node");
      return true;
    },
    enter: async () => undefined,
  };
  const allowances = new Allowances(() => 0, shared);
  for (let count = 0; count < 2; count++) await allowances.enter(guest({ ratePerMinute: 1 }), visitor());
  await assert.rejects(allowances.enter(guest({ ratePerMinute: 1 }), visitor()), /at another node/);
  assert.deepEqual(spentAs, ["a", "a", "a"]);
  const alone = new Allowances(() => 0, { spend: async () => false, enter: async () => undefined });
  await alone.enter(guest({ ratePerMinute: 1 }), visitor());
  await assert.rejects(alone.enter(guest({ ratePerMinute: 1 }), visitor()), { status: 429 });
});

test("a pattern of models is what a regular expression would make of it", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b", "*", "/", "."), maxLength: 8 });
  const names = fc.string({ unit: fc.constantFrom("a", "b", "/", "."), maxLength: 8 });
  fc.assert(
    fc.property(letters, names, (pattern, name) => {
      const expression = pattern
        .split("*")
        .map((part) => part.replaceAll(".", "\\."))
        .join(".*");
      assert.equal(mayUse({ models: [pattern] }, [name]), new RegExp(`^${expression}$`).test(name));
    }),
    { numRuns: 2_000 },
  );
  assert.ok(mayUse(undefined, ["x"]) && mayUse({}, ["x"]));
  assert.ok(mayUse({ models: ["a", "b*"] }, ["bc"]) && !mayUse({ models: ["a", "b*"] }, ["c"]));
  const hostile = { models: [`${"*a".repeat(90)}*b`] };
  assert.equal(mayUse(hostile, ["a".repeat(500)]), false, "and takes no longer than the name");
});

for (const version of VERSIONS) {
  test(`over HTTP/${version} an API key's limits hold at the gateway, and it opens no streams beside it`, async (t) => {
    const now = (): number => Date.now();
    const keys = new ApiKeys({ tables: memoryTableStore({ now }), now });
    const rig = await startGateway(t, {}, { authenticate: (apiKey) => keys.authenticate(apiKey) });
    const limited = await keys.create("alice", "", {
      models: ["acme/*"],
      ratePerMinute: 100,
      concurrency: 1,
      parked: 5,
    });
    const headers = bearer(limited.apiKey);

    const list = readJson((await ask(rig, version, { path: "/v1/models", headers })).body).get("data");
    assert.ok(Array.isArray(list) && list.length === 2);
    for (const [path, status] of [
      ["/v1/models/acme/one", 200],
      ["/v1/models/other/big", 404],
    ] as const) {
      assert.equal((await ask(rig, version, { path, headers })).status, status);
    }
    const other = await askChat(rig, version, { headers, body: chatBody({ model: "other/big" }) });
    assert.deepEqual(
      [other.status, errorOf(other).code, errorOf(other).param],
      [404, "model_not_found", "model"],
    );

    const answer = new ScriptedAnswer("busy", [text(1, "so far")]);
    rig.answers.give(answer);
    const open = await openChat(t, rig, version, { headers });
    await open.until("so far");
    assert.equal(rig.answers.chats[0]?.parkedMax, 5);
    const second = await askChat(rig, version, { headers });
    assert.deepEqual([second.status, errorOf(second).type], [429, "rate_limit_error"]);
    assert.equal(second.headers["retry-after"], "1");
    answer.add(ended(2));
    await open.ended;
    await eventually(
      async () => (await askChat(rig, version, { headers })).status === 200,
      "there is room again",
    );

    const once = bearer((await keys.create("alice", "", { ratePerMinute: 1 })).apiKey);
    rig.answers.known.add("again");
    const keyed = (key: string) => askChat(rig, version, { headers: { ...once, "idempotency-key": key } });
    const paid: number[] = [];
    for (const key of ["again", "new", "again", "another", "again"]) paid.push((await keyed(key)).status);
    assert.deepEqual(paid, [200, 200, 200, 429, 200], "the same request again costs nothing of the rate");

    const rare = await keys.create("alice", "", { ratePerMinute: 2 });
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) {
      statuses.push((await askChat(rig, version, { headers: bearer(rare.apiKey) })).status);
    }
    assert.deepEqual(statuses, [200, 200, 429]);

    const native = await ask(rig, version, {
      method: "POST",
      path: "/holdfast.v1.StreamService/Append",
      headers: { ...headers, "content-type": "application/proto" },
    });
    assert.equal(native.status, 401);
    assert.match(native.body.toString(), /has limits/);
  });
}

for (const version of VERSIONS) {
  test(`E8: over HTTP/${version} of requests that come at the same time exactly so many are let in, and not one more`, async (t) => {
    const now = (): number => Date.now();
    const keys = new ApiKeys({ tables: memoryTableStore({ now }), now });
    const rig = await startGateway(t, {}, { authenticate: (apiKey) => keys.authenticate(apiKey) });
    const codesOf = async (count: number, apiKey: string): Promise<readonly string[]> => {
      const asked = Array.from({ length: count }, () => askChat(rig, version, { headers: bearer(apiKey) }));
      const answers = await Promise.all(asked);
      return answers.map((answer) => (answer.status === 200 ? "in" : String(errorOf(answer).code)));
    };
    const tally = (codes: readonly string[]): Record<string, number> =>
      Object.fromEntries(
        [...new Set(codes)].map((code) => [code, codes.filter((one) => one === code).length]),
      );

    // The next one is let in after a minute, however busy this machine is.
    const rare = await keys.create("alice", "", { ratePerMinute: 1 });
    assert.deepEqual(tally(await codesOf(1, rare.apiKey)), { in: 1 });
    assert.deepEqual(tally(await codesOf(1, rare.apiKey)), { rate_limit_exceeded: 1 });
    const burst = await keys.create("alice", "", { ratePerMinute: 1 });
    assert.deepEqual(tally((await codesOf(6, burst.apiKey)).toSorted()), { in: 1, rate_limit_exceeded: 5 });

    const few = await keys.create("alice", "", { concurrency: 3 });
    const answers = [1, 2, 3].map((at) => new ScriptedAnswer(`held-${at}`, [text(1, "so far")]));
    rig.answers.give(...answers);
    const headers = bearer(few.apiKey);
    const open = await Promise.all(answers.map(() => openChat(t, rig, version, { headers })));
    await Promise.all(open.map((one) => one.until("so far")));
    assert.deepEqual(tally(await codesOf(4, few.apiKey)), { concurrency_limit_exceeded: 4 });
    answers[0]?.add(ended(2));
    await Promise.race(open.map((one) => one.ended));
    await eventually(async () => (await codesOf(1, few.apiKey))[0] === "in", "there is room for one");
    for (const answer of answers.slice(1)) answer.add(ended(2));
    await Promise.all(open.map((one) => one.ended));
  });
}

for (const version of VERSIONS) {
  test(`over HTTP/${version} a client that lost its connection goes on with its answer: no rate is used up, and no place is taken by the dead`, async (t) => {
    const now = (): number => Date.now();
    const keys = new ApiKeys({ tables: memoryTableStore({ now }), now });
    const rig = await startGateway(t, {}, { authenticate: (apiKey) => keys.authenticate(apiKey) });
    const { apiKey } = await keys.create("alice", "", { ratePerMinute: 1, concurrency: 1 });
    const headers = bearer(apiKey);
    const cut = new ScriptedAnswer("stream-1", [text(1, "so far")]);
    rig.answers.give(cut);
    // Its network is gone, which nothing here can see: the socket stays as it is.
    const dead = await openChat(t, rig, version, { headers });
    await dead.until("so far");
    assert.equal((await askChat(rig, version, { headers })).status, 429);
    for (let count = 0; count < 3; count++) {
      rig.answers.give(new ScriptedAnswer("stream-1", [text(2, "the rest"), ended(3)]));
      const back = { ...headers, "last-event-id": "0:1" };
      const rest = await ask(rig, version, { path: "/v1/streams/stream-1/events", headers: back });
      assert.equal(rest.status, 200, rest.body.toString());
    }
    assert.equal(await cut.delivery, false, "the dead one is cut");
    assert.equal(errorOf(await askChat(rig, version, { headers })).code, "rate_limit_exceeded");
  });
}

test("E8: a retry by its Idempotency-Key takes the place of the request that died", async (t) => {
  const now = (): number => Date.now();
  const keys = new ApiKeys({ tables: memoryTableStore({ now }), now });
  const rig = await startGateway(t, {}, { authenticate: (apiKey) => keys.authenticate(apiKey) });
  const { apiKey } = await keys.create("alice", "", { concurrency: 1 });
  const headers = { ...bearer(apiKey), "idempotency-key": "once" };
  const cut = new ScriptedAnswer("stream-1", [text(1, "so far")]);
  rig.answers.give(cut);
  const dead = await openChat(t, rig, 1, { headers });
  await dead.until("so far");
  const others = { ...headers, "idempotency-key": "another" };
  assert.equal((await askChat(rig, 1, { headers: others })).status, 429);
  assert.equal((await askChat(rig, 1, { headers })).status, 200);
  assert.equal(await cut.delivery, false);
});

test("a model is the same one with and without its provider's name, in the request and in the API key's list", async (t) => {
  const now = (): number => Date.now();
  const keys = new ApiKeys({ tables: memoryTableStore({ now }), now });
  const rig = await startGateway(t, {}, { authenticate: (apiKey) => keys.authenticate(apiKey) });
  for (const pattern of ["one", "acme/one", "on*", "*/one"]) {
    const { apiKey } = await keys.create("alice", "", { models: [pattern] });
    const headers = bearer(apiKey);
    const statusOf = async (model: string): Promise<number> =>
      (await askChat(rig, 1, { headers, body: chatBody({ model }) })).status;
    assert.deepEqual([await statusOf("one"), await statusOf("acme/one")], [200, 200], pattern);
    assert.deepEqual(
      [await statusOf("two"), await statusOf("acme/two"), await statusOf("none")],
      [404, 404, 404],
    );
    const list = readJson((await ask(rig, 1, { path: "/v1/models", headers })).body).get("data");
    assert.ok(Array.isArray(list) && list.length === 1, pattern);
    assert.equal((await ask(rig, 1, { path: "/v1/models/one", headers })).status, 200);
    assert.equal((await ask(rig, 1, { path: "/v1/models/two", headers })).status, 404);
  }
});
