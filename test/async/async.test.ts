/** The two ways to wait: for a condition, and for one's turn. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeSignal } from "../../src/async/change-signal.ts";
import { KeyedQueue } from "../../src/async/keyed-queue.ts";

test("a condition is looked at before each wait and after each change, so no change is missed", async () => {
  const signal = new ChangeSignal();
  let count = 0;
  await signal.until(() => count === 0);
  const reached = Promise.all([signal.until(() => count >= 2), signal.until(() => count >= 3)]);
  for (; count < 3; signal.notify()) count++;
  await reached;
});

test("whoever waits for a condition is let go when its signal is aborted, before and during the wait", async () => {
  const signal = new ChangeSignal();
  const leaving = new AbortController();
  const left = signal.until(() => false, leaving.signal);
  leaving.abort();
  await left;
  await signal.until(() => false, leaving.signal);
});

test("work of one key runs one after the other, of two keys at once, and a failure stops nothing behind it", async () => {
  const queue = new KeyedQueue();
  const gate = Promise.withResolvers<void>();
  const ran: string[] = [];
  const first = queue.run("a", async () => {
    await gate.promise;
    ran.push("first");
    throw new Error("no");
  });
  const second = queue.run("a", async () => ran.push("second"));
  await queue.run("b", async () => ran.push("other"));
  assert.deepEqual(ran, ["other"]);
  const settled = queue.settled();
  gate.resolve();
  await assert.rejects(first, /no/);
  await second;
  await settled;
  assert.deepEqual(ran, ["other", "first", "second"]);
});
