/** Rows that follow an answer: read at once, written with the next batch. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SealedRows } from "../../src/gateway/sealed-rows.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Rows, the clock that they set, and what the tables were asked to write. */
function rig() {
  const tables = memoryTableStore({ now: () => 0 });
  const batches: string[][] = [];
  const timers = new Set<() => void>();
  const counting: typeof tables = {
    ...tables,
    batch: (writes) => {
      batches.push(writes.map(({ kind, key }) => `${kind} ${key}`));
      return tables.batch(writes);
    },
  };
  const sealer = nodeSealing().homeSealer(new Uint8Array(32).fill(7));
  const after = (_: number, run: () => void) => {
    timers.add(run);
    return () => void timers.delete(run);
  };
  const rows = new SealedRows({
    tables: counting,
    sealer,
    onDamaged: (cause) => assert.fail(String(cause)),
    environment: { after },
  });
  const put = (key: string, value: string) => rows.put("t", key, new TextEncoder().encode(value), 1_000);
  return { rows, put, batches, timers };
}

test("what waits is read at once, and written before the next batch, in the order of the two", async () => {
  const { rows, put, batches, timers } = rig();
  await rows.batch([await put("a", "old"), await put("b", "old")]);
  rows.behind([await put("a", "new"), { kind: "delete", table: "t", key: "b" }]);
  assert.equal(await rows.read("t", "a", decode), "new");
  assert.equal(await rows.read("t", "b", decode), undefined);
  assert.equal(batches.length, 1, "nothing is written yet");
  rows.behind([await put("a", "newer")]);
  await rows.batch([await put("b", "again")]);
  assert.deepEqual(batches.slice(1), [["put a", "delete b"], ["put b"]]);
  assert.equal(timers.size, 0, "nothing is left to be written later");
  assert.equal(await rows.read("t", "a", decode), "newer");
  assert.equal(await rows.read("t", "b", decode), "again");
});

test("what waits is written after a while without another batch, and before it is listed or looked at with its version", async () => {
  const { rows, put, batches, timers } = rig();
  rows.behind([await put("a", "1")]);
  for (const run of timers) run();
  assert.deepEqual(batches, [["put a"]]);
  rows.behind([await put("b", "1")]);
  const keys = (await Array.fromAsync(rows.list("t"))).map(({ key }) => key);
  assert.deepEqual(keys, ["a", "b"]);
  rows.behind([await put("c", "1")]);
  const { row, version } = await rows.look("t", "c", decode);
  assert.equal(row, "1");
  assert.ok(version > 0);
  await rows.flush();
  assert.equal(batches.length, 3);
});

test("what waits is written although the batch that it goes with is refused", async () => {
  const { rows, put } = rig();
  rows.behind([await put("a", "1")]);
  const refused = { ...(await put("b", "1")), expectedVersion: 99 };
  await assert.rejects(rows.batch([refused]), { code: "fenced" });
  const [row] = await Array.fromAsync(rows.list("t"));
  assert.equal(row?.key, "a");
});
