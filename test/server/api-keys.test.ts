import assert from "node:assert/strict";
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { test } from "node:test";
import { inspect } from "node:util";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { ApiKeys } from "../../src/server/api-keys.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";
import type { TableKey, TableStore } from "../../src/store/table-store.ts";

const NOW_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

class Clock {
  nowMs = NOW_MS;
  readonly now = (): number => this.nowMs;
}

function setUp(environmentKey?: string): { clock: Clock; tables: TableStore; keys: ApiKeys } {
  const clock = new Clock();
  const tables = memoryTableStore({ now: clock.now });
  return { clock, tables, keys: new ApiKeys({ tables, now: clock.now, environmentKey }) };
}

async function refusal(keys: ApiKeys, presented: string | undefined): Promise<HoldfastError> {
  const error: unknown = await keys.authenticate(presented).then(
    () => assert.fail("it was let in"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof HoldfastError);
  return error;
}

/** As a stranger's: the same id, another secret. */
const forged = (apiKey: string): string => apiKey.slice(0, -1) + (apiKey.endsWith("A") ? "B" : "A");

test("an API key is its principal's, and is not the next one", async () => {
  const { keys } = setUp();
  const alice = await keys.create("alice", "laptop");
  const bob = await keys.create("bob", "");
  assert.match(alice.apiKey, /^hf_[0-9a-f]{10}_[A-Za-z0-9_-]{43}$/);
  assert.ok(alice.apiKey.includes(alice.record.id));
  assert.equal((await keys.authenticate(alice.apiKey)).principal, "alice");
  assert.equal((await keys.authenticate(bob.apiKey)).principal, "bob");
  assert.notEqual(alice.apiKey, bob.apiKey);
});

test("E2: absent, malformed, unknown, wrong and revoked API keys get one and the same answer", async () => {
  const { keys } = setUp();
  const { apiKey, record } = await keys.create("alice", "");
  const revoked = await keys.create("alice", "");
  await keys.revoke(revoked.record.id);
  const unknown = (await setUp().keys.create("alice", "")).apiKey;
  const presented = [undefined, "", "hf_", "x", apiKey.slice(0, -1), `${apiKey}A`, ` ${apiKey}`, record.id];
  const answers = [...presented, unknown, forged(apiKey), revoked.apiKey];
  for (const wrong of answers) {
    const { code, message, remedy } = await refusal(keys, wrong);
    assert.deepEqual([code, remedy], ["unauthenticated", "ask"]);
    assert.equal(message, (await refusal(keys, undefined)).message);
    assert.ok(wrong === undefined || wrong.length < 5 || !message.includes(wrong));
  }
});

test("E1: every answer, known id or not, comes after a comparison in constant time", async (t) => {
  const { keys } = setUp("an API key of the environment");
  const { apiKey } = await keys.create("alice", "");
  const unknown = (await setUp().keys.create("alice", "")).apiKey;
  const spy = t.mock.method(crypto, "timingSafeEqual");
  syncBuiltinESMExports();
  try {
    for (const presented of [apiKey, forged(apiKey), unknown, "x", undefined]) {
      const before = spy.mock.callCount();
      await keys.authenticate(presented).catch(() => undefined);
      assert.equal(spy.mock.callCount() - before, 2, `for ${String(presented)}`);
    }
  } finally {
    spy.mock.restore();
    syncBuiltinESMExports();
  }
});

test("E4: the table never has the API key, neither does a printed object", async () => {
  const { keys, tables } = setUp("canary-of-the-environment");
  const { apiKey } = await keys.create("alice", "laptop");
  await keys.authenticate(apiKey);
  const rows = await tables.list("api_keys", "", { after: undefined, countMax: 10 });
  assert.equal(rows.length, 1);
  const secret = apiKey.slice(-43);
  const places = [
    ...rows.map(({ key, value }) => key + Buffer.from(value).toString("latin1")),
    inspect(keys, { depth: 9, showHidden: true }),
    inspect(await keys.list(), { depth: 9 }),
  ];
  for (const place of places) {
    for (const canary of [apiKey, secret, Buffer.from(secret, "base64url").toString("hex"), "canary"]) {
      assert.ok(!place.includes(canary));
    }
  }
});

test("a revocation counts at once here, and elsewhere after the cache's moment", async () => {
  const { keys, tables, clock } = setUp();
  const elsewhere = new ApiKeys({ tables, now: clock.now, cacheMs: 2_000 });
  const { apiKey, record } = await keys.create("alice", "");
  assert.equal((await keys.authenticate(apiKey)).principal, "alice");
  assert.equal((await elsewhere.authenticate(apiKey)).principal, "alice");
  assert.equal(await keys.revoke(record.id), true);
  assert.equal((await refusal(keys, apiKey)).code, "unauthenticated");
  clock.nowMs += 2_000;
  assert.equal((await refusal(elsewhere, apiKey)).code, "unauthenticated");
});

test("a read that was under way while the API key was revoked does not bring it back", async (t) => {
  const { keys, tables } = setUp();
  const gate = Promise.withResolvers<void>();
  let isHeld = false;
  const get = tables.get.bind(tables);
  t.mock.method(tables, "get", async (at: TableKey) => {
    const wait = isHeld ? gate.promise : undefined;
    const row = await get(at);
    await wait;
    return row;
  });
  const { apiKey, record } = await keys.create("alice", "");
  isHeld = true;
  const early = keys.authenticate(apiKey);
  // Read before the revocation, answered after it.
  await new Promise((resolve) => setImmediate(resolve));
  isHeld = false;
  assert.equal(await keys.revoke(record.id), true);
  gate.resolve();
  assert.equal((await early).principal, "alice");
  assert.equal((await refusal(keys, apiKey)).code, "unauthenticated");
});

test("the list tells everything but the API key, and use to the hour", async () => {
  const { keys, clock } = setUp();
  const first = await keys.create("alice", "laptop");
  clock.nowMs += 1;
  const second = await keys.create("bob", "phone");
  await keys.revoke(second.record.id);
  assert.equal(await keys.revoke("0000000000"), false);
  await keys.authenticate(first.apiKey);
  clock.nowMs += HOUR_MS - 1;
  await keys.authenticate(first.apiKey);
  await new Promise((resolve) => setImmediate(resolve));
  const seen = (await keys.list()).map(({ principal, label, lastUsedMs, revokedMs }) => ({
    principal,
    label,
    lastUsedMs,
    revokedMs,
  }));
  assert.deepEqual(seen, [
    { principal: "alice", label: "laptop", lastUsedMs: NOW_MS + 1, revokedMs: undefined },
    { principal: "bob", label: "phone", lastUsedMs: undefined, revokedMs: NOW_MS + 1 },
  ]);
  clock.nowMs += 1;
  await keys.authenticate(first.apiKey);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal((await keys.list())[0]?.lastUsedMs, clock.nowMs);
});

test("the environment's API key is of principal default, beside all others", async () => {
  const { keys } = setUp("from the environment, long enough");
  assert.equal(await keys.hasAny(), true);
  assert.equal((await keys.authenticate("from the environment, long enough")).principal, "default");
  assert.equal((await refusal(keys, "from the environment, long enougH")).code, "unauthenticated");
  assert.deepEqual(await keys.list(), []);
  const none = setUp().keys;
  assert.equal(await none.hasAny(), false);
  const { record } = await none.create("alice", "");
  assert.equal(await none.hasAny(), true);
  await none.revoke(record.id);
  assert.equal(await none.hasAny(), false);
});

test("an API key of the table keeps its principal and its revocation, also when the environment has it", async () => {
  const { keys, tables, clock } = setUp();
  const { apiKey, record } = await keys.create("alice", "");
  const both = new ApiKeys({ tables, now: clock.now, environmentKey: apiKey });
  assert.equal((await both.authenticate(apiKey)).principal, "alice");
  await both.revoke(record.id);
  assert.equal((await refusal(both, apiKey)).code, "unauthenticated");
  const elsewhere = (await setUp().keys.create("alice", "")).apiKey;
  const foreign = new ApiKeys({ tables, now: clock.now, environmentKey: elsewhere });
  assert.equal((await foreign.authenticate(elsewhere)).principal, "default");
  await tables.close();
  assert.equal((await foreign.authenticate(elsewhere)).principal, "default");
});

test("D5: while the store is down an API key that was good stays good, and nobody new comes in", async () => {
  const { keys, tables, clock } = setUp();
  const { apiKey } = await keys.create("alice", "");
  const other = await keys.create("bob", "");
  await keys.authenticate(apiKey);
  await tables.close();
  clock.nowMs += HOUR_MS;
  assert.equal((await keys.authenticate(apiKey)).principal, "alice");
  assert.equal((await refusal(keys, forged(apiKey))).code, "unauthenticated");
  assert.equal((await refusal(keys, other.apiKey)).code, "unavailable");
});

test("names that a terminal or a log would suffer from are refused", async () => {
  const { keys } = setUp();
  for (const principal of ["", " a", "a\nb", "a\u001b[2J", "\ud800", "x".repeat(129)]) {
    await assert.rejects(keys.create(principal, ""), HoldfastError);
  }
  await assert.rejects(keys.create("alice", "x".repeat(101)), { code: "too_large" });
  await assert.rejects(keys.create("alice", "\u202etxt"), { code: "invalid_argument" });
  await keys.create("ä".repeat(128), "x".repeat(100));
});

test("a damaged row is refused, not guessed", async () => {
  const { keys, tables } = setUp();
  const { apiKey, record } = await keys.create("alice", "");
  for (const text of ["", "{}", "null", '{"principal":"alice","label":"","createdMs":1,"sha256":"00"}']) {
    await tables.put({ table: "api_keys", key: record.id }, new TextEncoder().encode(text));
    assert.equal((await refusal(keys, apiKey)).code, "stream_failed");
  }
});

test("limits are kept with the API key; a row without any is one without limits", async () => {
  const { keys, tables } = setUp();
  const limits = { models: ["acme/*", "x"], ratePerMinute: 60, concurrency: 4, parked: 0 };
  const limited = await keys.create("alice", "", limits);
  const free = await keys.create("alice", "");
  assert.deepEqual((await keys.authenticate(limited.apiKey)).limits, limits);
  assert.deepEqual((await keys.authenticate(limited.apiKey)).apiKeyId, limited.record.id);
  assert.equal((await keys.authenticate(free.apiKey)).limits, undefined);
  const stored = await tables.get({ table: "api_keys", key: free.record.id });
  assert.ok(!Buffer.from(stored?.value ?? []).includes("limits"), "as it was before there were limits");
  await keys.revoke(limited.record.id);
  assert.deepEqual((await keys.list()).find(({ id }) => id === limited.record.id)?.limits, limits);
});

test("limits that cannot be meant are refused, and a row whose limits cannot be read is damaged", async () => {
  const { keys, tables } = setUp();
  const wrong = [
    { ratePerMinute: 0 },
    { concurrency: 1.5 },
    { parked: -1 },
    { concurrency: 1_000_001 },
    { models: [] },
    { models: ["a b"] },
    { models: Array.from({ length: 101 }, () => "m") },
  ];
  for (const limits of wrong) {
    await assert.rejects(
      keys.create("alice", "", limits),
      { code: "invalid_argument" },
      JSON.stringify(limits),
    );
  }
  await keys.create("alice", "", { ratePerMinute: 1, concurrency: 1_000_000, parked: 0 });
  const { apiKey, record } = await keys.create("alice", "", { concurrency: 2 });
  const at = { table: "api_keys", key: record.id };
  const row = await tables.get(at);
  assert.ok(row !== undefined);
  for (const limits of ['{"concurrency":"2"}', "[]", "null", '{"concurrency":2,"fromTheFuture":1}']) {
    const damaged = Buffer.from(row.value).toString().replace('{"concurrency":2}', limits);
    await tables.put(at, Buffer.from(damaged));
    const fresh = new ApiKeys({ tables, now: () => NOW_MS });
    await assert.rejects(fresh.authenticate(apiKey), { code: "stream_failed" }, limits);
  }
});
