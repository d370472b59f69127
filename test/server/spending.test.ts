import assert from "node:assert/strict";
import { test } from "node:test";
import { PAYERS, payerPrefix, Spending } from "../../src/server/spending.ts";
import type { TableStore } from "../../src/store/table-store.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const DAY_MS = 24 * 60 * 60_000;
/** Ten hours into a day of UTC. */
const NOW_MS = 20_000 * DAY_MS + 10 * 60 * 60_000;

const ALICE = { apiKeyId: "a1", tokensPerDay: 100 };
const STREAM = { principal: "alice", idempotencyKey: "one" };

interface World {
  nowMs: number;
  readonly tables: TableStore;
  open(isShared?: boolean): Promise<Spending>;
}

function world(): World {
  const made: World = {
    nowMs: NOW_MS,
    tables: memoryTableStore({ now: () => made.nowMs }),
    open: (isShared = false): Promise<Spending> =>
      Spending.open({ tables: made.tables, now: () => made.nowMs, retentionMs: DAY_MS / 12, isShared }),
  };
  return made;
}

test("an API key spends until its tokens of the day are used, and again when the day has turned", async () => {
  const own = world();
  const spending = await own.open();
  await spending.admit(STREAM, ALICE);
  await spending.count({ stream: STREAM, name: "first", tokens: 99 });
  assert.equal(await spending.waitMs(ALICE), undefined);
  await spending.count({ stream: STREAM, name: "second", tokens: 51 });
  assert.equal(await spending.today("a1"), 150, "an answer that runs is not cut");
  assert.equal(await spending.waitMs(ALICE), 14 * 60 * 60_000);
  assert.equal(await spending.waitMs({ apiKeyId: "b2", tokensPerDay: 1 }), undefined);
  await assert.rejects(spending.admit({ ...STREAM, idempotencyKey: "two" }, ALICE), {
    code: "too_large",
    retryAfterMs: 14 * 60 * 60_000,
  });
  own.nowMs += 14 * 60 * 60_000;
  assert.equal(await spending.waitMs(ALICE), undefined);
  assert.equal(await spending.today("a1"), 0);
});

test("a call that a later process reads again counts once, and what was counted outlives the process", async () => {
  const own = world();
  const before = await own.open();
  await before.charge(STREAM, ALICE);
  await before.count({ stream: STREAM, name: "held", tokens: 40 });
  const after = await own.open();
  assert.equal(after.mayCount, true);
  await after.count({ stream: STREAM, name: "held", tokens: 40 });
  await after.count({ stream: STREAM, name: "next", tokens: 2 });
  assert.equal(await after.today("a1"), 42);
});

test("what a stream costs is paid by the API key that asked last, and by none without a limit", async () => {
  const own = world();
  const spending = await own.open();
  assert.equal(spending.mayCount, false, "without a payer nothing is looked up");
  await spending.count({ stream: STREAM, name: "free", tokens: 7 });
  await spending.charge(STREAM, ALICE);
  await spending.count({ stream: STREAM, name: "first", tokens: 10 });
  await spending.charge(STREAM, { apiKeyId: "b2", tokensPerDay: 5 });
  await spending.count({ stream: STREAM, name: "second", tokens: 3 });
  await spending.charge(STREAM, undefined);
  await spending.count({ stream: STREAM, name: "third", tokens: 1_000 });
  assert.deepEqual([await spending.today("a1"), await spending.today("b2")], [10, 3]);
  assert.equal(
    spending
      .metrics()
      .match(/^holdfast_api_key_tokens_total\{.*$/gm)
      ?.join(" "),
    'holdfast_api_key_tokens_total{key="a1"} 10 holdfast_api_key_tokens_total{key="b2"} 3',
  );
});

test("two nodes that count at the same time lose nothing", async () => {
  const own = world();
  const nodes = [await own.open(true), await own.open(true)];
  const streams = Array.from({ length: 20 }, (_, at) => ({ principal: "alice", idempotencyKey: String(at) }));
  await Promise.all(
    nodes.map(async (node) => Promise.all(streams.map((stream) => node.admit(stream, ALICE)))),
  );
  await Promise.all(
    nodes.flatMap((node) =>
      streams.map((stream, at) => node.count({ stream, name: `call ${at}`, tokens: at })),
    ),
  );
  const sum = streams.reduce((total, _, at) => total + at, 0);
  for (const node of nodes) assert.equal(await node.today("a1"), sum);
});

test("E4: no name of a stream or principal is in the rows, and those of one principal lie together", async () => {
  const own = world();
  const spending = await own.open();
  await spending.charge(STREAM, ALICE);
  await spending.charge({ principal: "bob", idempotencyKey: "one" }, ALICE);
  const page = { after: undefined, countMax: 10 };
  const rows = await own.tables.list(PAYERS, payerPrefix("alice"), page);
  assert.equal(rows.length, 1);
  assert.doesNotMatch(
    JSON.stringify(rows.map(({ key, value }) => [key, Buffer.from(value).toString()])),
    /alice|one/,
  );
});

test("a count that cannot be read is no zero", async () => {
  const own = world();
  const spending = await own.open();
  await spending.spend("a1", 5);
  const [row] = await own.tables.list("spent_tokens", "", { after: undefined, countMax: 1 });
  await own.tables.put({ table: "spent_tokens", key: row?.key ?? "" }, Buffer.from("{}"));
  await assert.rejects(spending.waitMs(ALICE), { code: "stream_failed" });
});

test("on shared tables a stream without a payer costs no write, and one that had a payer loses it", async () => {
  const own = world();
  const spending = await own.open(true);
  let deletes = 0;
  const remove = own.tables.delete.bind(own.tables);
  own.tables.delete = (...given) => {
    deletes++;
    return remove(...given);
  };
  await spending.charge(STREAM, undefined);
  assert.equal(deletes, 0);
  await (await own.open(true)).charge(STREAM, ALICE);
  await spending.charge(STREAM, undefined);
  assert.equal(deletes, 1);
  await spending.count({ stream: STREAM, name: "after", tokens: 5 });
  assert.equal(await spending.today("a1"), 0);
});
