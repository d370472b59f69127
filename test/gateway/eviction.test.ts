/** Which of the sessions that wait make room for another one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { crowdedOut, type Parked, parkedBytes } from "../../src/gateway/eviction.ts";

function parked(principal: string, sinceMs: number, bytes = 10, canGo = true): Parked {
  return { principal, sinceMs, bytes, canGo };
}

const since = (gone: ReadonlySet<Parked>): readonly number[] => [...gone].map(({ sinceMs }) => sinceMs);

test("E8: a principal has half of the room, at the limit and one above; the longest waiting go, and only its own", () => {
  const waiting = [parked("bob", 1), ...[5, 3, 4].map((sinceMs) => parked("alice", sinceMs))];
  const alice = { principal: "alice", bytes: 10, countMax: undefined };
  assert.deepEqual(since(crowdedOut(waiting, alice, 80)), []);
  assert.deepEqual(since(crowdedOut(waiting, alice, 79)), [3]);
  assert.deepEqual(since(crowdedOut(waiting, { ...alice, bytes: 30 }, 80)), [3, 4]);
  assert.deepEqual(since(crowdedOut(waiting, { ...alice, principal: "bob" }, 80)), []);
});

test("E8: the room of all, at the limit and one above: the longest waiting goes, whoever's it is", () => {
  const waiting = [parked("bob", 2), parked("alice", 1), parked("carol", 3)];
  const dave = { principal: "dave", bytes: 10, countMax: undefined };
  assert.deepEqual(since(crowdedOut(waiting, dave, 40)), []);
  assert.deepEqual(since(crowdedOut(waiting, dave, 39)), [1]);
  assert.deepEqual(since(crowdedOut(waiting, undefined, 29)), [1], "after a start with less room");
});

test("E8: an API key that may have so many has no more; one whose results are on their way stays", () => {
  const waiting = [parked("alice", 1, 10, false), parked("alice", 2), parked("alice", 3)];
  const alice = { principal: "alice", bytes: 10, countMax: 4 };
  assert.deepEqual(since(crowdedOut(waiting, alice, 1_000)), []);
  assert.deepEqual(since(crowdedOut(waiting, { ...alice, countMax: 3 }, 1_000)), [2]);
  assert.deepEqual(since(crowdedOut(waiting, { ...alice, countMax: 1 }, 1_000)), [2, 3]);
});

test("E8: one that is read back crowds out those that have waited for longer, and none that came after it", () => {
  const waiting = [2, 3, 5].map((sinceMs) => parked("alice", sinceMs));
  const back = (sinceMs: number) => ({ principal: "alice", bytes: 10, countMax: 1, sinceMs });
  assert.deepEqual(since(crowdedOut(waiting, back(4), 1_000)), [2, 3]);
  assert.deepEqual(since(crowdedOut(waiting, back(1), 1_000)), []);
  assert.deepEqual(since(crowdedOut(waiting, back(1), 40)), [2, 3], "there are not bytes enough for all");
});

test("F2: whatever waits, with the newcomer it is within the bounds, or nothing is left that could go", () => {
  const one = fc.record({
    principal: fc.constantFrom("a", "b", "c"),
    sinceMs: fc.nat(100),
    bytes: fc.integer({ min: 1, max: 50 }),
    canGo: fc.boolean(),
  });
  const newcomer = fc.record({
    principal: fc.constantFrom("a", "b"),
    bytes: fc.integer({ min: 1, max: 50 }),
    countMax: fc.option(fc.nat(5), { nil: undefined }),
  });
  const sum = (all: readonly { readonly bytes: number }[]): number =>
    all.reduce((bytes, each) => bytes + each.bytes, 0);
  fc.assert(
    fc.property(fc.array(one), newcomer, fc.nat(500), (waiting, next, bytesMax) => {
      const gone = crowdedOut(waiting, next, bytesMax);
      const left = waiting.filter((each) => !gone.has(each));
      const own = left.filter(({ principal }) => principal === next.principal);
      const isRoomy = own.length + 1 <= (next.countMax ?? Infinity) && sum([...own, next]) <= bytesMax / 2;
      assert.ok(isRoomy || own.every(({ canGo }) => !canGo));
      assert.ok(sum([...left, next]) <= bytesMax || left.every(({ canGo }) => !canGo));
      for (const each of gone) assert.ok(each.canGo);
    }),
  );
});

test("a small turn costs what its stream costs, a long one what its history costs", () => {
  assert.ok(parkedBytes(0) > 0);
  assert.ok(parkedBytes(32 * 1024 * 1024) > 32 * 1024 * 1024);
});
