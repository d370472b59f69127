/** Maps and sets for what comes and goes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PassingMap, PassingSet } from "../../src/protocol/passing.ts";

/** What each value leads to. */
const VALUE_BYTES = 64 * 1024;
const VALUES = 400;
const AT_ONCE = 32;
/** Values between two collections of the young objects. */
const ROUND = 40;

setFlagsFromString("--expose-gc");
const gc: unknown = runInNewContext("gc");

function collect(how?: { readonly type: "minor" }): void {
  assert.ok(typeof gc === "function", "V8's own collector");
  Reflect.apply(gc, undefined, [how]);
}

type Value = readonly number[];

/** Bytes of each value that wait for a collection of the old objects once it has been taken out. */
async function kept(put: (key: string, value: Value) => () => void): Promise<number> {
  const inside: (() => void)[] = [];
  const run = async (): Promise<void> => {
    for (let at = 1; at <= VALUES; at++) {
      inside.push(
        put(
          String(at),
          Array.from({ length: VALUE_BYTES / 8 }, () => at),
        ),
      );
      if (inside.length > AT_ONCE) inside.shift()?.();
      if (at % ROUND !== 0) continue;
      await new Promise((resolve) => setImmediate(resolve));
      collect({ type: "minor" });
    }
    for (const takeOut of inside.splice(0)) takeOut();
  };
  await run();
  collect();
  await run();
  for (let times = 0; times < 3; times++) collect({ type: "minor" });
  const before = process.memoryUsage().heapUsed;
  collect();
  return (before - process.memoryUsage().heapUsed) / VALUES;
}

test("F2: what was taken out of a map or a set is collected with the young objects", async () => {
  const map = new PassingMap<string, { readonly value: Value }>();
  const set = new PassingSet<{ readonly value: Value }>();
  const ofMap = await kept((key, value) => {
    map.set(key, { value });
    return () => map.delete(key);
  });
  const ofSet = await kept((_, value) => set.add({ value }));
  assert.deepEqual([map.size, set.size], [0, 0]);
  for (const bytes of [ofMap, ofSet]) assert.ok(bytes < VALUE_BYTES / 4, `${bytes} bytes of each`);
});

test("a map and a set have what was put into them, in order, until it is taken out", () => {
  const map = new PassingMap<string, number>();
  for (const [key, value] of [
    ["a", 1],
    ["b", 2],
    ["a", 3],
    ["c", 4],
  ] as const)
    map.set(key, value);
  for (const gone of ["b", "never"]) map.delete(gone);
  assert.deepEqual(
    [map.get("a"), map.get("b"), map.has("b"), map.has("c"), map.size],
    [3, undefined, false, true, 2],
  );
  assert.deepEqual([...map.values()], [3, 4]);
  const set = new PassingSet<string>();
  const takeOut = set.add("a");
  for (const value of ["b", "c"]) set.add(value);
  for (const value of set) if (value !== "c") set.delete(value);
  assert.deepEqual([...set], ["c"]);
  takeOut();
  set.delete("c");
  assert.equal(set.size, 0);
});
