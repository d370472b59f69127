/**
 * One writer among tabs: what happens when a tab asks for a lock at the very moment at which it is given one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locks } from "../../src/client/browser/platform.ts";
import { webWriterLocks } from "../../src/client/browser/writer-locks.ts";

/** Node's types do not have it yet. */
declare const navigator: { readonly locks: Locks };

const { signal } = new AbortController();

/** How many turns after the release the tab asks: one of them falls between the grant and the news of it. */
for (let turns = 0; turns < 6; turns++) {
  test(`D1: a lock that was waited for is not lost when it is asked for ${turns} turns after it became free`, async (t) => {
    const scope = `writer-locks-${turns}`;
    const [waiting, other] = [webWriterLocks(navigator.locks, scope), webWriterLocks(navigator.locks, scope)];
    const before = await other.acquire("s");
    assert.ok(before.kind === "acquired");
    const reserving = waiting.reserve("s", signal);
    before.release();
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    const asked = waiting.acquire("s");
    assert.equal(await reserving, true);
    const answers = [await asked, await waiting.acquire("s")];
    waiting.cancel("s");
    const acquired = answers.filter((answer) => answer.kind === "acquired");
    assert.equal(acquired.length, 1, "this tab has the lock, and somebody in it can give it back");
    for (const lock of acquired) lock.release();
    const { promise: given, resolve } = Promise.withResolvers<void>();
    void other.reserve("s", t.signal).then((isGiven) => isGiven && resolve());
    await given;
    other.cancel("s");
  });
}

test("D1: two of one tab that wait for the same stream get it one after the other", async () => {
  const scope = "writer-locks-two";
  const locks = webWriterLocks(navigator.locks, scope);
  assert.equal(await locks.reserve("s", signal), true);
  let isSecondGiven = false;
  const second = locks.reserve("s", signal).then(() => (isSecondGiven = true));
  const first = await locks.acquire("s");
  assert.deepEqual([first.kind, isSecondGiven], ["acquired", false]);
  if (first.kind === "acquired") first.release();
  await second;
  assert.equal((await locks.acquire("s")).kind, "acquired");
});
