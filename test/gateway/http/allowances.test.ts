import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Allowances, mayUse } from "../../../src/gateway/http/allowances.ts";
import type { Limits } from "../../../src/gateway/http/index.ts";
import { GatewayError } from "../../../src/gateway/openai/index.ts";
import { ApiKeys } from "../../../src/server/api-keys.ts";
import { memoryTableStore } from "../../../src/store/memory-table-store.ts";
import { ask, bearer, eventually, readJson, VERSIONS } from "../../server/http/rig.ts";
import { askChat, chatBody, errorOf, openChat, startGateway } from "./gateway-rig.ts";
import { ended, ScriptedAnswer, text } from "./scripted-answers.ts";

const guest = (limits: Limits, apiKeyId = "a") => ({ principal: "p", apiKeyId, limits });

test("E8: the rate is so many at once and in a minute, each API key for itself, and a refusal costs nothing", () => {
  const clock = { nowMs: 0 };
  const allowances = new Allowances(() => clock.nowMs);
  const limits = { ratePerMinute: 3 };
  for (let count = 0; count < 3; count++) allowances.enter(guest(limits))();
  const refuse = (): number => {
    try {
      allowances.enter(guest(limits));
    } catch (error) {
      assert.ok(error instanceof GatewayError && error.status === 429 && error.isRetryable);
      return error.retryAfterMs ?? 0;
    }
    return 0;
  };
  for (let count = 0; count < 5; count++) assert.equal(refuse(), 20_000);
  allowances.enter(guest(limits, "b"))();
  clock.nowMs += 19_999;
  assert.equal(refuse(), 1);
  clock.nowMs += 1;
  allowances.enter(guest(limits))();
  assert.equal(refuse(), 20_000);
  clock.nowMs += 10 * 60_000;
  for (let count = 0; count < 3; count++) allowances.enter(guest(limits))();
  assert.equal(refuse(), 20_000, "silence saves up no more than a minute");
});

test("E8: so many at once, and leaving twice leaves once", () => {
  const allowances = new Allowances(() => 0);
  const limits = { concurrency: 2 };
  const [first] = [allowances.enter(guest(limits)), allowances.enter(guest(limits))];
  assert.throws(() => allowances.enter(guest(limits)), { code: "concurrency_limit_exceeded", status: 429 });
  first();
  first();
  allowances.enter(guest(limits));
  assert.throws(() => allowances.enter(guest(limits)), { code: "concurrency_limit_exceeded" });
  for (let count = 0; count < 10; count++) allowances.enter(guest({}));
});

test("F2: API keys that are silent are forgotten, those with open requests are not", () => {
  const clock = { nowMs: 0 };
  const allowances = new Allowances(() => clock.nowMs);
  allowances.enter(guest({ concurrency: 1 }, "open"));
  for (let at = 0; at < 5_000; at++) {
    clock.nowMs += 100;
    allowances.enter(guest({ concurrency: 1 }, `key ${at}`))();
  }
  assert.throws(() => allowances.enter(guest({ concurrency: 1 }, "open")));
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
